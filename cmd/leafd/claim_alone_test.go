package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

// A second daemon of the same node, on a data directory and an address of its own or on
// a copy of the first's data directory, doesn't start while the first lives, which
// doesn't notice. The same holds where the first's HTTP server can't be reached.
func TestSecondOfANodeIsRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		reachable bool
		says      string
	}{
		{"first answers", true, "answers at"},
		{"first can't be reached", false, "identity held by another process"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := onShared(t)
			o := c.watch()
			m := c.machine("--node", "ids-1")
			settings := steady()
			if !tc.reachable {
				settings = append(settings, "--advertise", freeAddress(t))
			}
			first := m.ready(settings...)
			ld := newLoad(first, "/api/snowflake/get/a", "/api/snowflake/get/a?n=200")
			ld.flows(t, 1000)
			owner := first.info().Owner

			other, clone := c.machine("--node", "ids-1"), c.machine("--node", "ids-1")
			require.NoError(t, os.CopyFS(clone.dataDir(), os.DirFS(m.dataDir())))
			for name, l := range map[string]*child{"another directory": other.start(frequent()...), "a copy of its directory": clone.start(frequent()...)} {
				l.exits(cli.ExitHeld, name)
				require.True(t, l.hasLogged(`"alarm":"identity_held"`), name)
				require.Contains(t, l.Log(), tc.says, name)
				require.Contains(t, l.Log(), owner, "%s: who holds it", name)
				require.NotContains(t, l.Log(), "issuing snowflake IDs", name)
			}

			ld.flows(t, 1000)
			requireDistinct(t, ld.unharmed(t))
			require.False(t, first.hasLogged("worker_fenced"), first.Log())
			require.Equal(t, http.StatusOK, first.mustGet("/readyz").status)
			_, entry := o.entry()
			require.Equal(t, owner, entry.payload(t).Owner)
			require.Equal(t, []string{"ids-1"}, o.live())
			require.Equal(t, cli.ExitOK, first.stop())
		})
	}
}

// A node moves to another host with a data directory of its own, and back to the old
// one: one of the two has the identity at a time, and goes on where the other ended.
func TestIdentityMovesAndComesBack(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	here, there := c.machine("--node", "ids-1"), c.machine("--node", "ids-1")
	var all []int64
	for turn := range 4 {
		m, rival := here, there
		if turn%2 == 1 {
			m, rival = there, here
		}
		l := m.ready(frequent()...)
		require.Zero(t, l.info().ID)
		got := l.batch("/api/snowflake/get/a?n=2000")
		if turn > 0 {
			require.Greater(t, slices.Min(got), slices.Max(all))
		}
		all = append(all, got...)
		if turn == 1 { // its own directory has been here before, too
			rival.start(frequent()...).exits(cli.ExitHeld)
		}
		all = append(all, l.batch("/api/snowflake/get/a?n=2000")...)
		require.Equal(t, cli.ExitOK, l.stop())
	}
	requireDistinct(t, all)
	c.watch().entry() // one
}

// A daemon killed and started again at once finds its own temporary node, of a session
// that is open for long yet, and doesn't wait for its end.
func TestRestartAfterAKillNeedsNoExpiry(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	o := c.watch()
	m := c.machine("--zk-session-timeout", "20s")
	l := m.ready(frequent()...)
	path := o.temporary + "/" + m.addr
	before := o.must(path)
	all := l.batch("/api/snowflake/get/a?n=2000")
	require.Eventually(t, func() bool { // the first report may be through in ZooKeeper alone
		r, err := cache.Peek(m.dataDir())
		return err == nil && r.Owner == l.info().Owner
	}, 30*time.Second, 5*time.Millisecond)
	l.kill()
	require.Equal(t, before.created, o.must(path).created)

	l = m.ready(frequent()...)
	after := o.must(path)
	require.Contains(t, sessions(t, c.servers[0]), fmt.Sprintf("0x%x\n", uint64(before.session)), "it waited until the session had expired")
	require.NotEqual(t, before.session, after.session)
	require.Greater(t, after.created, before.created)
	require.Zero(t, l.info().ID)
	got := l.batch("/api/snowflake/get/a?n=2000")
	require.Greater(t, slices.Min(got), slices.Max(all))
	require.Equal(t, cli.ExitOK, l.stop())
	require.Empty(t, o.live())
}
