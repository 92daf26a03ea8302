package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
)

// right-root: one start with another --zk-root, or another path of the worker IDs, makes nothing and takes
// nothing; put right, the daemon goes on as it was.
func TestAnotherRootForOneStart(t *testing.T) {
	s := newStory(t)
	s.host("a")
	s.ready("a")
	s.ids("a")
	s.stop("a")
	before := s.o.everything()
	wrong := s.root + "-wrong"
	for _, args := range [][]string{{"--zk-root", wrong}, {"--zk-root", s.root, "--zk-forever-path", wrong + "/forever"}} {
		s.sets("a", args...)
		s.start("a")
		s.exits("a", cli.ExitHeld, s.root+"/leaf_forever", wrong, "nothing was read or written there", "leafd worker release 0")
		_, found, err := s.o.get(wrong)
		require.NoError(t, err)
		require.False(t, found)
	}
	require.Equal(t, before, s.o.everything())
	s.sets("a", "--zk-forever-path", "")
	s.ready("a")
	s.is("a", 0)
	s.ids("a")
	s.never(codeDataLost, "a")
}

// right-ensemble: one start on another ensemble, which is empty, makes no second cluster there. On the
// operator's word it takes the place of the first.
func TestAnotherEnsembleForOneStart(t *testing.T) {
	s := newStory(t)
	other := &cluster{t: t, servers: []string{zookeepertest.Start(t).Addr()}, root: s.root}
	a := s.host("a", "--zk-session-timeout", "20s") // a slow ZooKeeper is not away
	s.ready("a")
	cluster := a.info().Cluster
	s.ids("a")
	s.stop("a")
	s.sets("a", "--zk", other.servers[0])
	s.start("a")
	s.exits("a", cli.ExitHeld, a.proxy.Addr(), other.servers[0], "leafd cluster init --again")
	other.onMachine(newMachine(t), "cluster", "status").Failed(t, cli.ExitFailure, "nothing is at "+s.root)

	again := []string{"cluster", "init", "--again", "--data-dir", a.dataDir()}
	require.Contains(t, planned(t, other.onMachine(a.machine, again...)), cluster)
	require.Contains(t, other.onMachine(a.machine, append(again, "--yes")...).OK(t), cluster)
	s.ready("a")
	s.is("a", 0)
	require.Equal(t, cluster, a.info().Cluster)
	s.ids("a")
}

// set-aside-always: the disk is cloned while the first claim settles. The clone sees the entry written, and is
// another instance before the original is cut off.
func TestDiskClonedWhileTheFirstClaimSettles(t *testing.T) {
	s := ownStory(t)
	s.host("a")
	s.settles("a")
	s.start("a")
	s.told("a", "waiting: settling", "worker 0 is claimed")
	s.clones("clone", "a")
	s.settles("clone")
	s.ready("a")
	s.start("clone")
	s.told("clone", `"alarm":"worker_id_lost"`, "was written by another life")
	s.cut("a")
	s.ready("clone")
	s.workerIDs("a", "clone")
	s.ids("a", "clone")
}

// made-over: a worker ID is released by force, and claimed by another daemon; then its old holder is back, while
// that claim settles. It gives up, and no loss is noted.
func TestOldHolderIsBackDuringAClaimAfterAForce(t *testing.T) {
	s := ownStory(t)
	s.host("old")
	s.ready("old")
	s.ids("old")
	s.kill("old")
	s.says("worker", "release", "0", "--force")
	time.Sleep(worker.DefaultCeilingLead + time.Second) // its limit has passed
	s.host("heir")
	s.settles("heir")
	s.start("heir")
	s.told("heir", "waiting: settling", "worker 0 is claimed")
	s.ready("old")
	s.is("old", 1)
	s.told("old", `"alarm":"worker_id_lost"`)
	s.ready("heir")
	s.is("heir", 0)
	s.ids("old", "heir")
	require.Zero(t, s.status().Losses)
}

// A daemon is killed, and started again at once, before ZooKeeper has ended the session of the life before: it watches
// whether that life still reports, as the original of a copied directory would, and doesn't wait for the session's end.
// Without ZooKeeper it starts by its record; back, its first report finds the dead life's node, which is no copy's.
func TestRestartAfterAKillNeedsNoExpiry(t *testing.T) {
	s := newStory(t)
	a := s.host("a", "--zk-session-timeout", "40s")
	s.ready("a")
	s.confirmed("a")
	s.ids("a")
	path := s.o.livePath(a.child)
	before := s.o.must(path)
	s.kill("a")
	s.start("a")
	s.told("a", "this data directory's previous life is still shown as live")
	s.stop("a")
	s.never(codeLost, "a")
	s.ready("a")
	s.confirmed("a")
	require.Contains(t, sessions(t, s.servers[0]), fmt.Sprintf("0x%x\n", uint64(before.session)), "it waited until the session had expired")
	require.NotEqual(t, before.session, s.o.must(path).session)
	s.ids("a")

	s.kill("a")
	s.cut("a")
	s.ready("a")
	requireUnconfirmed(t, a.child, 0)
	require.Len(t, s.o.live(), 1, "the dead life's")
	s.ids("a")
	s.heal("a")
	s.told("a", lineBack)
	s.confirmed("a")
	s.ids("a")
	s.never(codeFenced, "a")
	s.stop("a")
	require.Empty(t, s.o.live())
}

// With --release-on-stop a clean stop gives the worker ID back: the next new daemon has it,
// above all that was issued under it, and without ZooKeeper nothing starts from the file.
func TestReleaseOnStop(t *testing.T) {
	s := newStory(t)
	s.host("a", "--release-on-stop", "--startup-timeout", "6s")
	s.ready("a")
	s.ids("a")
	s.stop("a")
	require.Equal(t, "released", s.standing(0).State)
	s.cut("a")
	s.start("a")
	s.exits("a", cli.ExitFailure, `"alarm":"registry_unreachable"`, "given back at the last stop")
	s.heal("a")
	s.ready("a") // no other daemon has taken it
	s.is("a", 0)
	s.ids("a")
	s.stop("a")
	limit := s.standing(0).Limit
	s.host("next")
	s.ready("next")
	s.is("next", 0)
	require.Equal(t, limit, s.standing(0).Floor)
	s.ready("a")
	s.is("a", 1)
	s.ids("a", "next")
}

// late-release: a release that was filed while ZooKeeper was away is written by the next start, first.
func TestReleaseFiledWhileZooKeeperWasAway(t *testing.T) {
	s := ownStory(t)
	a := s.host("a", "--release-on-stop")
	s.ready("a")
	s.ids("a")
	was := a.info()
	s.zk.Kill(t)
	s.stop("a")
	s.zk.Restart(t)
	require.Equal(t, "active", s.standing(0).State)
	s.sets("a", "--release-on-stop=false")
	s.ready("a")
	s.is("a", was.ID)
	require.Greater(t, a.info().Floor, was.Floor, "a new piece")
	require.Less(t, a.info().Floor, was.Limit)
	s.ids("a")
}
