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

// A name is a label: daemons of one --node on directories of their own, and on a copy of the
// directory of a daemon that lives, run beside each other, each with a worker ID of its own,
// and again after a restart of all.
func TestOneNameOnSeveralDirectories(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	o := c.watch()
	m, other, clone := c.machine("--node", "ids-1"), c.machine("--node", "ids-1"), c.machine("--node", "ids-1")
	first := m.ready(steady()...)
	ld := newLoad(first, "/api/snowflake/get/a", "/api/snowflake/get/a?n=200")
	ld.flows(t, 1000)
	require.NoError(t, os.CopyFS(clone.dataDir(), os.DirFS(m.dataDir())))
	machines := []*machine{m, other, clone}
	var all []int64
	workerIDs := map[*machine]int64{}
	for life := range 2 {
		daemons := []*child{first, other.ready(steady()...), clone.ready(steady()...)}
		loads := []*load{ld, newLoad(daemons[1], "/api/snowflake/get/a?n=200"), newLoad(daemons[2], "/api/snowflake/get/a?n=200")}
		for _, ld := range loads {
			ld.flows(t, 1000)
		}
		taken := map[int64]bool{}
		for i, l := range daemons {
			id := l.info().ID
			taken[id] = true
			if life == 0 {
				workerIDs[machines[i]] = id
			}
			require.Equal(t, workerIDs[machines[i]], id, "another worker ID after the restart")
			require.Equal(t, http.StatusOK, l.mustGet("/readyz").status)
			require.False(t, l.hasLogged("worker_fenced"), l.Log())
			require.Equal(t, life == 0 && l == daemons[2], l.hasLogged(`"alarm":"worker_id_lost"`, "of which this one is a copy"))
		}
		require.Len(t, taken, 3)
		require.Len(t, o.entries(), 3)
		require.Len(t, o.live(), 3)
		for i, ld := range loads {
			all = append(all, ld.unharmed(t)...)
			require.Equal(t, cli.ExitOK, daemons[i].stop())
		}
		require.Empty(t, o.live())
		if life == 0 {
			first = m.ready(steady()...)
			ld = newLoad(first, "/api/snowflake/get/a?n=200")
		}
	}
	requireDistinct(t, all)
}

// A daemon killed and started again at once finds the temporary node of its life before, of a
// session that is open for long yet. It watches whether that life still reports, as the original of
// a copied directory would, and doesn't wait for the session's end.
func TestRestartAfterAKillNeedsNoExpiry(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	o := c.watch()
	m := c.machine("--zk-session-timeout", "20s")
	l := m.ready(frequent()...)
	path := o.livePath(l)
	var before seenNode
	require.Eventually(t, func() (found bool) { // with the first report
		before, found, _ = o.get(path)
		return found
	}, eventually, tick)
	all := l.batch("/api/snowflake/get/a?n=2000")
	require.Eventually(t, func() bool { // the first report may be through in ZooKeeper alone
		r, err := cache.Peek(m.dataDir())
		return err == nil && r.Owner == l.info().Owner
	}, eventually, 5*time.Millisecond)
	l.kill()
	require.Equal(t, before.created, o.must(path).created)

	l = m.start(frequent()...)
	l.awaitLog("this data directory's previous life is still shown as live")
	require.Equal(t, cli.ExitOK, l.stop())
	require.False(t, l.hasLogged(`"alarm"`, "leafd does not start"), "stopped while it waited: %s", l.Log())

	l = m.ready(frequent()...)
	var after seenNode
	require.Eventually(t, func() (found bool) { // with the first report
		after, found, _ = o.get(path)
		return found && after.session != before.session
	}, eventually, tick)
	require.Contains(t, sessions(t, c.servers[0]), fmt.Sprintf("0x%x\n", uint64(before.session)), "it waited until the session had expired")
	require.NotEqual(t, before.session, after.session)
	require.Greater(t, after.created, before.created)
	require.Zero(t, l.info().ID)
	got := l.batch("/api/snowflake/get/a?n=2000")
	require.Greater(t, slices.Min(got), slices.Max(all))
	require.Equal(t, cli.ExitOK, l.stop())
	require.Empty(t, o.live())
}
