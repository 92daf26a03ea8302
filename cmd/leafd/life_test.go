package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// A daemon that was displaced while it ran begins a new life in the same process. These
// are the lives after each way to be displaced; the rules of lives are named where
// they are tested.

const lineSetAside = `"alarm":"worker_id_lost"`

// displaced is a daemon that is about to be displaced: its identity, and what its clients ask for.
type displaced struct {
	*child
	was      views.WorkerInfo
	segments *load // served all the while
}

func toBeDisplaced(m *machine, args ...string) *displaced {
	m.t.Helper()
	l := m.ready(append(args, sharedTable(m.t)...)...)
	d := &displaced{child: l, was: l.info()}
	d.segments = (&load{}).start(l, 1, []string{"/api/segment/get/a"})
	return d
}

// begins waits for the new life, which has the same worker ID or another one, and returns
// the first IDs of it. Every place that tells the daemon's identity tells the new life.
func (d *displaced) begins(same bool) []int64 {
	t := d.t
	t.Helper()
	d.awaitLog(lineFenced)
	require.Eventually(t, func() bool { return d.info().Owner != d.was.Owner }, eventually, tick)
	d.awaitStatus("/readyz", http.StatusOK)
	got := d.some()
	now := d.info()
	require.Equal(t, same, now.ID == d.was.ID)
	require.Equal(t, "live", now.State)
	require.Greater(t, now.Since, d.was.Since)
	require.Equal(t, d.was.Started, now.Started, "it is the same process")
	asked := clitest.FromJSON[views.WorkerInfo](t, d.mustGet("/api/clock").body)
	require.Equal(t, now.Owner, asked.Owner)
	require.Equal(t, now.Since, asked.Since)
	require.Equal(t, now.Cluster, asked.Cluster)
	d.awaitMetric(is(1), "leafd_worker_info", "worker", strconv.FormatInt(now.ID, 10))
	d.awaitMetric(is(1), "leafd_worker_state", "state", "live")
	require.GreaterOrEqual(t, d.raised()[codeFenced], 1)
	requireDistinct(t, d.segments.unharmed(t))
	return got
}

// The operator releases the worker ID of a daemon that is cut off, by force, and another
// daemon gets it: no client asks the first one meanwhile, as the operator says.
func TestNewLifeAfterAReleaseByForce(t *testing.T) {
	t.Parallel()
	s := zookeepertest.Shared(t)
	c := onServers(t, s.NewRoot(t), s.Addr())
	look := c.tree(s)
	proxy := zookeepertest.NewProxy(t, s.Addr())
	m := c.behind(proxy, brisk()...)
	first := toBeDisplaced(m)
	all := first.some()
	proxy.Down(t)
	require.Equal(t, cli.ExitOK, c.onMachine(m, "worker", "release", "0", "--force", "--yes").Code)
	m.passes(look.entry(m.addr).Limit.Sub(m.now()))
	second := c.host(brisk()...).ready()
	require.Zero(t, second.info().ID)
	ld := batches(second)
	ld.flows(t, 2000)

	proxy.Up(t)
	all = append(all, first.begins(false)...)
	require.True(t, first.hasLogged(`"alarm":"worker_id_lost"`))
	ld.flows(t, 2000)
	requireDistinct(t, slices.Concat(all, ld.unharmed(t)))
	require.Equal(t, cli.ExitOK, first.stop())
	require.Equal(t, cli.ExitOK, second.stop())
}

// lookAlike returns a machine of c with a copy of m's data directory; the record in it says that
// it was written there.
func (c *cluster) lookAlike(m *machine, args ...string) *machine {
	c.t.Helper()
	twin := c.host(args...)
	require.NoError(c.t, os.CopyFS(twin.dataDir(), os.DirFS(m.dataDir())))
	dir, err := cache.Open(twin.dataDir())
	require.NoError(c.t, err)
	r, err := dir.Load()
	require.NoError(c.t, err)
	r.DirectoryID, err = dir.DirectoryID()
	require.NoError(c.t, err)
	require.NoError(c.t, dir.Save(r))
	require.NoError(c.t, dir.Close())
	return twin
}

// A copy of the data directory of a daemon that is cut off is started, as from a clone of
// its disk, which nothing tells from the original. Once it is back, the original finds that
// another life writes its entry: its directory is set aside, and each goes its own way.
func TestNewLifeAfterACopyWasStarted(t *testing.T) {
	t.Parallel()
	s := zookeepertest.Shared(t)
	c := onServers(t, s.NewRoot(t), s.Addr())
	proxy := zookeepertest.NewProxy(t, s.Addr())
	m := c.behind(proxy, brisk()...)
	m.zk = append(m.zk, "--node", "one")
	first := toBeDisplaced(m)
	all := first.some()
	proxy.Down(t)
	twin := c.lookAlike(m, append(brisk(), "--node", "one")...).ready()
	require.Zero(t, twin.info().ID)
	ld := batches(twin)
	ld.flows(t, 2000)

	proxy.Up(t)
	all = append(all, first.begins(false)...)
	require.True(t, first.hasLogged(lineSetAside, "one of the two directories is a copy"))
	require.NotEqual(t, twin.info().Instance, first.info().Instance)
	ld.flows(t, 2000)
	requireDistinct(t, slices.Concat(all, ld.unharmed(t)))
	require.Zero(t, twin.raised()[codeFenced], "they displace each other once")
	require.Equal(t, cli.ExitOK, first.stop())
	require.Equal(t, cli.ExitOK, twin.stop())
}

// The lock file is deleted under a running daemon. It locks the
// directory again; another process that has done so first keeps it for as long as it runs.
func TestNewLifeAfterTheLockWasLost(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	first := toBeDisplaced(m, quick()...)
	all := first.some()
	require.NoError(t, os.Remove(m.dataDir()+"/leafd.lock"))
	all = append(all, first.begins(true)...)
	first.signal(syscall.SIGSTOP) // it would lock the directory again sooner than a slow start does
	require.NoError(t, os.Remove(m.dataDir()+"/leafd.lock"))
	second := m.ready(quick()...)
	first.signal(syscall.SIGCONT)
	all = append(all, second.some()...)
	first.awaitLog("no new life begins")
	require.Equal(t, "worker_fenced", first.mustGet("/readyz").code())
	require.Equal(t, cli.ExitOK, second.stop())
	first.awaitStatus("/readyz", http.StatusOK)
	requireDistinct(t, append(all, first.some()...))
	require.Equal(t, cli.ExitOK, first.stop(), "it is its own again")
}

// A daemon that is displaced again and again is so ever more slowly.
func TestNewLivesWaitEverLonger(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	o := c.watch()
	l := c.machine(frequent()...).ready()
	was := l.info()
	for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		o.takeAway(was.ID)
		require.Eventually(t, func() bool { now := l.info(); return now.Owner != was.Owner && now.State == "live" }, eventually, tick)
		l.awaitLog(fmt.Sprintf(`"pause_ms":%d`, pause.Milliseconds()))
		now := l.info()
		require.GreaterOrEqual(t, now.Since.Sub(was.Since), pause)
		was = now
	}
	require.Positive(t, l.raised()[codeFenced])
	require.Equal(t, cli.ExitOK, l.stop())
}

// The root is another cluster's now. Nothing is issued until the daemon was
// started with what it belongs to; segments are served.
func TestNoNewLifeInAnotherCluster(t *testing.T) {
	t.Parallel()
	s := zookeepertest.Shared(t)
	c := onServers(t, s.NewRoot(t), s.Addr())
	proxy := zookeepertest.NewProxy(t, s.Addr())
	m := c.behind(proxy, brisk()...)
	require.Equal(t, cli.ExitOK, m.ready().stop())
	proxy.Down(t)
	l := toBeDisplaced(m)
	c.tree(s).removeAll(c.root)
	c.init()
	proxy.Up(t)
	l.awaitLog("fenced for good")
	segments := l.segments.count()
	m.passes(3 * time.Second)
	require.Equal(t, l.was.Owner, clitest.FromJSON[views.WorkerInfo](t, l.mustGet("/api/clock").body).Owner, "no other life")
	require.Equal(t, "worker_fenced", l.mustGet("/readyz").code())
	require.Equal(t, 2, l.raised()[codeFenced], "fenced, and then for good")
	require.Greater(t, l.segments.count(), segments)
	requireDistinct(t, l.segments.unharmed(t))
	require.Empty(t, c.watch().entries())
	require.Equal(t, cli.ExitHeld, l.stop())
}

// twins returns two clusters under roots of their own that say that they are one, as on two
// ZooKeepers of which one was made from a copy of the other: nothing in either tells, but the
// daemons do. introduce puts a daemon into the live set of the other's.
func twins(t *testing.T) (all [2]*cluster, introduce func(to *cluster, l *child)) {
	t.Helper()
	s := zookeepertest.Shared(t)
	for i := range all {
		all[i] = onServers(t, s.NewRoot(t), s.Addr())
	}
	look := all[0].tree(s)
	uuids := make([]string, 2)
	for i, c := range all {
		uuids[i] = c.tree(s).cluster()
	}
	data, _, _, _ := look.get(all[1].root)
	look.set(all[1].root, []byte(strings.Replace(string(data), uuids[1], uuids[0], 1)))
	return all, func(to *cluster, l *child) {
		t.Helper()
		look.create(to.root+"/leaf_temporary/"+l.addr+"~"+l.info().Instance, []byte(l.info().Owner), flagEphemeral)
	}
}

// Two daemons have one worker ID, and see each other. The one that began later
// ends its life, and begins no other while the first goes on. One that is only about to
// begin is refused.
func TestPeerWithOurWorkerID(t *testing.T) {
	t.Parallel()
	all, introduce := twins(t)
	var machines [2]*machine
	for i, c := range all {
		machines[i] = c.host(brisk()...)
		machines[i].peers = 100 * time.Millisecond
	}
	first := machines[0].ready()
	later := toBeDisplaced(machines[1])
	require.Equal(t, first.info().ID, later.was.ID)
	require.Equal(t, first.info().Cluster, later.was.Cluster)
	require.Less(t, first.info().Since, later.was.Since)
	ld := batches(first)
	ld.flows(t, 2000)
	introduce(all[0], later.child)
	introduce(all[1], first)

	later.awaitLog(lineFenced, "the daemon at "+first.addr, "has issued as worker 0 of the same cluster since")
	require.Equal(t, "worker_fenced", later.mustGet("/api/snowflake/get/a").code())
	later.awaitLog(`"alarm":"worker_fenced"`, "no new life begins")
	require.Equal(t, "worker_fenced", later.mustGet("/readyz").code())
	ld.flows(t, 2000)
	require.Zero(t, first.raised()[codeFenced])
	issued := ld.unharmed(t)
	require.Equal(t, cli.ExitOK, first.stop())
	issued = append(issued, later.begins(true)...)
	requireDistinct(t, issued)
	require.False(t, later.hasLogged(lineSetAside))

	first = machines[0].start()
	first.exits(cli.ExitHeld)
	require.True(t, first.hasLogged(`"alarm":"worker_fenced"`, "the daemon at "+later.addr, "leafd does not start"))
	require.Equal(t, cli.ExitOK, later.stop())
	require.Equal(t, cli.ExitOK, machines[0].ready().stop(), "it has lost nothing by it")
}
