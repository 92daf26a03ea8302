package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

// What the root of a cluster has to know for a ZooKeeper that is set back: the longest lease,
// the longest session, and its own age.

// The longest lease belongs to the cluster, from its making on: a daemon with a longer one is
// refused, and nothing is written for it.
func TestLeaseLongerThanTheClusters(t *testing.T) {
	t.Parallel()
	for longest, args := range map[string][]string{"168h": nil, "720h": {"--longest-lease", "720h"}, "6h": {"--longest-lease", "6h"}} {
		c := unmade(t)
		o := c.watch()
		require.Contains(t, c.onMachine(newMachine(t), append([]string{"cluster", "init", "--new", "--yes"}, args...)...).OK(t), "Made cluster ")
		require.Equal(t, longest, field(t, c.onMachine(newMachine(t), "cluster", "status").Stdout, "longest_lease"))
		limit, err := time.ParseDuration(longest)
		require.NoError(t, err)
		before := o.everything()
		l := c.machine("--lease", (limit + time.Minute).String()).start()
		l.exits(cli.ExitHeld)
		require.True(t, l.hasLogged("--lease", longest), l.Log())
		require.NotContains(t, l.Log(), "issuing snowflake IDs")
		require.Equal(t, before, o.everything())
		l = c.machine(append(frequent(), "--lease", longest)...).ready()
		require.Zero(t, l.info().ID)
		require.Equal(t, cli.ExitOK, l.stop())
		require.Equal(t, longest, field(t, c.onMachine(newMachine(t), "cluster", "status").Stdout, "longest_lease"), "nothing raises it")
	}
}
