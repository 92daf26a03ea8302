package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
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

	cluster := settings.Config{ZooKeeper: settings.ZooKeeper{Servers: []string{"127.0.0.1:1"}}}
	require.Contains(t, cluster.NoIdentity("127.0.0.1:80", true), "advertise", "every machine has that address")
	require.Empty(t, cluster.NoIdentity("127.0.0.1:80", false), "it was asked for")
	require.Empty(t, (&settings.Config{}).NoIdentity("127.0.0.1:80", true))
	cluster.Node = "ids-1"
	require.Empty(t, cluster.NoIdentity("127.0.0.1:80", true))
}
