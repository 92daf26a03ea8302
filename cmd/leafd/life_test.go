package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/test/clitest"
)

// A daemon that was displaced while it ran begins a new life in the same process. These
// are the lives after each way to be displaced.

const lineSetAside = `"alarm":"worker_id_lost"`

// begins waits for the life after was, which has the same worker ID or another one. Every place that tells the daemon's
// identity tells the new life.
func (s *story) begins(name string, was views.WorkerInfo, same bool) {
	t := s.t
	t.Helper()
	l := s.hosts[name].child
	l.awaitLog(lineFenced)
	require.Eventually(t, func() bool { return l.info().Owner != was.Owner }, eventually, tick)
	s.ready(name)
	now := l.info()
	require.Equal(t, same, now.ID == was.ID)
	require.Equal(t, "live", now.State)
	require.Greater(t, now.Since, was.Since)
	require.Equal(t, was.Started, now.Started, "it is the same process")
	asked := clitest.FromJSON[views.WorkerInfo](t, l.mustGet("/api/clock").body)
	require.Equal(t, []any{now.Owner, now.Since, now.Cluster}, []any{asked.Owner, asked.Since, asked.Cluster})
	l.awaitMetric(is(1), "leafd_worker_info", "worker", strconv.FormatInt(now.ID, 10))
	l.awaitMetric(is(1), "leafd_worker_state", "state", "live")
	s.ids(name)
}

// The operator releases the worker ID of a daemon that is cut off, by force, and another
// daemon gets it: no client asks the first one meanwhile, as the operator says. Segments are served all the while.
func TestNewLifeAfterAReleaseByForce(t *testing.T) {
	s := newStory(t)
	a := s.host("a", sharedTable(t)...)
	s.host("b")
	s.ready("a")
	was, segments := a.info(), newLoad(a.child, "/api/segment/get/a")
	s.ids("a")
	s.cut("a")
	s.releasedByForce(0)
	s.ready("b")
	s.is("b", 0)
	s.asked("b")
	s.flows("b")
	s.heal("a")
	s.begins("a", was, false)
	s.told("a", lineSetAside)
	s.flows("b")
	requireDistinct(t, segments.unharmed(t))
}

// A copy of the data directory of a daemon that is cut off is started, as from a clone of
// its disk, which nothing tells from the original. Once it is back, the original finds that
// another life writes its entry: its directory is set aside, and each goes its own way.
func TestNewLifeAfterACopyWasStarted(t *testing.T) {
	s := newStory(t)
	a := s.host("a")
	s.ready("a")
	s.confirmed("a")
	was := a.info()
	s.ids("a")
	s.cut("a")
	s.clones("twin", "a")
	s.ready("twin")
	s.is("twin", 0)
	s.asked("twin")
	s.flows("twin")
	s.heal("a")
	s.begins("a", was, false)
	s.told("a", lineSetAside, "one of the two directories is a copy")
	s.flows("twin")
	s.never(codeFenced, "twin")
}

// The lock file is deleted under a running daemon. It locks the directory again; another process that has done so
// first waits out its ceiling, and keeps the directory for as long as it runs.
func TestNewLifeAfterTheLockWasLost(t *testing.T) {
	s := standalone(t)
	a := s.host("a")
	s.ready("a")
	was := a.info()
	s.ids("a")
	require.NoError(t, os.Remove(a.dataDir()+"/leafd.lock"))
	s.begins("a", was, true)
	s.freeze("a") // it would lock the directory again sooner than a slow start does
	require.NoError(t, os.Remove(a.dataDir()+"/leafd.lock"))
	s.host("b").dir = a.dir
	s.ready("b")
	s.thaw("a")
	s.ids("b")
	s.told("a", "no new life begins")
	s.unready("a", codeFenced)
	s.refuses("a", codeFenced)
	s.stop("b")
	s.ready("a")
	s.ids("a")
}

// A daemon that is displaced again and again is so ever more slowly.
func TestNewLivesWaitEverLonger(t *testing.T) {
	s := newStory(t)
	a := s.host("a")
	s.ready("a")
	for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		was := a.info()
		s.o.takeAway(was.ID)
		require.Eventually(t, func() bool { now := a.info(); return now.Owner != was.Owner && now.State == "live" }, eventually, tick)
		s.told("a", fmt.Sprintf(`"pause_ms":%d`, pause.Milliseconds()))
		require.GreaterOrEqual(t, a.info().Since.Sub(was.Since), pause)
	}
}

// The root is another cluster's now. Nothing is issued until the daemon was
// started with what it belongs to; segments are served.
func TestNoNewLifeInAnotherCluster(t *testing.T) {
	s := newStory(t)
	a := s.host("a", sharedTable(t)...)
	s.ready("a")
	s.stop("a")
	s.cut("a")
	s.ready("a") // by its record
	was := a.info().Owner
	s.o.removeAll(s.root)
	s.init()
	s.heal("a")
	s.told("a", "fenced for good")
	a.passes(3 * time.Second)
	require.Equal(t, was, clitest.FromJSON[views.WorkerInfo](t, a.mustGet("/api/clock").body).Owner, "no other life")
	s.unready("a", codeFenced)
	a.batch("/api/segment/get/a")
	require.Empty(t, s.watch().entries())
	require.Equal(t, cli.ExitHeld, a.stop())
}

// Two daemons have one worker ID, on two ZooKeepers of which one was made from a copy of the other: nothing in either tells, but
// the daemons do where they see each other. The one that began later ends its life, and begins no other while the
// first goes on. One that is only about to begin is refused.
func TestPeerWithOurWorkerID(t *testing.T) {
	s := newStory(t)
	copied := onServers(t, s.zk.NewRoot(t), s.zk.Addr())
	look := copied.tree(s.zk)
	look.set(copied.root, strings.Replace(look.must(copied.root).text, look.cluster(), s.o.cluster(), 1))
	first, later := s.host("first"), s.host("later", "--zk-root", copied.root)
	first.peers, later.peers = 100*time.Millisecond, 100*time.Millisecond
	s.ready("first")
	s.ready("later")
	was := later.info()
	require.Equal(t, []any{first.info().ID, first.info().Cluster}, []any{was.ID, was.Cluster})
	introduce := func(to string, h *storyHost) {
		look.create(to+"/leaf_temporary/"+h.machine.addr+"~"+h.info().Instance, h.info().Owner, flagEphemeral)
	}
	s.asked("first")
	introduce(s.root, later)
	introduce(copied.root, first)
	s.told("later", lineFenced, "the daemon at "+first.machine.addr, "has issued as worker 0 of the same cluster since")
	s.refuses("later", codeFenced)
	s.told("later", lineFenced, "no new life begins")
	s.flows("first")
	s.never(codeFenced, "first")
	s.stop("first")
	s.begins("later", was, true)
	s.start("first")
	s.exits("first", cli.ExitHeld, "the daemon at "+later.machine.addr, "leafd does not start")
	s.stop("later")
	s.ready("first")
}
