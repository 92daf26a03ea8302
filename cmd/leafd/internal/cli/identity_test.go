package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Without an address that peers can use there is nothing to be known by.
func TestNoUsableAddressIsAMistake(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"free port":            {"--listen", "127.0.0.1:0"},
		"free port, with node": {"--listen", "127.0.0.1:0", "--node", "n"},
		"advertised as 0":      {"--advertise", "127.0.0.1:0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leafd(t, append([]string{"serve", "--zk", "127.0.0.1:1"}, args...)...).Failed(t, ExitUsage, "advertise")
		})
	}
	require.Equal(t, "10.0.0.5:80", captured(t, invocation{args: []string{"--zk", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--advertise", "10.0.0.5:80"}}).Node)
	require.Equal(t, "127.0.0.1:0", captured(t, invocation{args: []string{"--listen", "127.0.0.1:0"}}).Node, "standalone it is good enough")
}
