package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClusterCommandsWithoutACluster(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"worker", "list"}, {"worker", "show", "7"}, {"worker", "release", "7"}, {"clock", "check"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			leafd(t, args...).Failed(t, ExitUsage, "--zk")
			down := append(args, "--zk", "127.0.0.1:1,127.0.0.1:2", "--timeout", "300ms")
			leafd(t, down...).Failed(t, ExitFailure, "ZooKeeper at 127.0.0.1:1,127.0.0.1:2", "300ms")
			require.NoDirExists(t, dir)
		})
	}
	out := leafd(t, "worker", "list", "--zk", "127.0.0.1:1", "--timeout", "2s")
	require.Contains(t, out.Stderr, "leafd: waiting for ZooKeeper at 127.0.0.1:1 and the daemons, for 2s at most (--timeout)\n")
}

func TestWorkerUsage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args []string
		says string
	}{
		{"unknown command", []string{"worker", "lst"}, "did you mean list?"},
		{"list one", []string{"worker", "list", "7"}, `"7"`},
		{"show none", []string{"worker", "show"}, "[flags]\", and got "},
		{"self one", []string{"worker", "self", "7"}, `"7"`},
		{"bad setting", []string{"worker", "list", "--zk-root=leaf"}, "--zk-root"},
		{"bad peers", []string{"clock", "check", "--peers=nobody"}, "--peers: "},
		{"nobody to ask", []string{"clock", "check"}, "--peers host:port"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if !strings.HasPrefix(tc.name, "nobody") && !strings.HasPrefix(tc.name, "unknown") {
				tc.args = append(tc.args, "--zk=127.0.0.1:1")
			}
			leafd(t, tc.args...).Failed(t, ExitUsage, tc.says)
		})
	}
}
