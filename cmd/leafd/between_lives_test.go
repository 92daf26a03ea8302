package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
)

// right-root: one start with another --zk-root, or another path of the worker IDs, makes nothing and takes
// nothing; put right, the daemon goes on as it was.
func TestAnotherRootForOneStart(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	o := c.watch()
	m := c.machine(frequent()...)
	l := m.ready()
	got := l.some()
	require.Equal(t, cli.ExitOK, l.stop())
	before := o.everything()
	for _, args := range [][]string{{"--zk-root", c.root + "-wrong"}, {"--zk-forever-path", c.root + "-wrong/forever"}} {
		wrong := m.start(args...)
		wrong.exits(cli.ExitHeld, args)
		for _, says := range []string{c.root + "/leaf_forever", c.root + "-wrong", "nothing was read or written there", "leafd worker release 0"} {
			require.Contains(t, wrong.Log(), says)
		}
		_, found, err := o.get(c.root + "-wrong")
		require.NoError(t, err)
		require.False(t, found)
	}
	require.Equal(t, before, o.everything())
	l = m.ready()
	require.Zero(t, l.info().ID)
	requireDistinct(t, append(got, l.some()...))
	require.Zero(t, l.raised()[codeDataLost])
	require.Equal(t, cli.ExitOK, l.stop())
}

// right-ensemble: one start on another ensemble, which is empty, makes no second cluster there. On the
// operator's word it takes the place of the first.
func TestAnotherEnsembleForOneStart(t *testing.T) {
	t.Parallel()
	c := (&cluster{t: t, servers: []string{zookeepertest.Start(t).Addr()}, root: "/leaf"}).init()
	other := &cluster{t: t, servers: []string{zookeepertest.Start(t).Addr()}, root: "/leaf"}
	m := c.machine(frequent()...)
	l := m.ready()
	me := l.info()
	got := l.some()
	require.Equal(t, cli.ExitOK, l.stop())
	onOther := []string{"--zk", other.servers[0]}
	wrong := m.start(onOther...)
	wrong.exits(cli.ExitHeld)
	for _, says := range []string{c.servers[0], other.servers[0], "leafd cluster init --again"} {
		require.Contains(t, wrong.Log(), says)
	}
	other.onMachine(newMachine(t), "cluster", "status").Failed(t, cli.ExitFailure, "nothing is at /leaf")
	l = m.ready()
	require.Equal(t, me.ID, l.info().ID)
	got = append(got, l.some()...)
	require.Equal(t, cli.ExitOK, l.stop())

	again := []string{"cluster", "init", "--again", "--data-dir", m.dataDir()}
	require.Contains(t, planned(t, other.onMachine(m, again...)), me.Cluster)
	require.Contains(t, other.onMachine(m, append(again, "--yes")...).OK(t), me.Cluster)
	l = m.ready(onOther...)
	require.Equal(t, []any{me.ID, me.Cluster}, []any{l.info().ID, l.info().Cluster})
	requireDistinct(t, append(got, l.some()...))
	require.Equal(t, cli.ExitOK, l.stop())
}

// set-aside-always: the disk is cloned while the first claim settles. The clone sees the entry written, and is
// another instance before the original is cut off.
func TestDiskClonedWhileTheFirstClaimSettles(t *testing.T) {
	t.Parallel()
	r := newRestorable(t)
	proxy := zookeepertest.NewProxy(t, r.s.Addr())
	m := r.behind(proxy, append(frequent(), "--startup-timeout", "5m")...)
	m.settle = 0
	l := m.start()
	l.awaitLog("waiting: settling", "worker 0 is claimed")
	twin := r.lookAlike(m, append(frequent(), "--startup-timeout", "5m")...)
	twin.settle = 0
	l.awaitReady()
	clone := twin.start()
	clone.awaitLog(`"alarm":"worker_id_lost"`, "was written by another life")
	proxy.Down(t)
	clone.awaitReady()
	require.NotEqual(t, l.info().ID, clone.info().ID)
	requireDistinct(t, append(l.some(), clone.some()...))
	require.Equal(t, cli.ExitOK, clone.stop())
	require.Equal(t, cli.ExitOK, l.stop())
}

// made-over: a worker ID is released by force, and claimed by another daemon; then its old holder is back, while
// that claim settles. It gives up, and no loss is noted.
func TestOldHolderIsBackDuringAClaimAfterAForce(t *testing.T) {
	t.Parallel()
	r := newRestorable(t)
	m := r.host()
	l := m.ready(frequent()...)
	require.Zero(t, l.info().ID)
	got := l.some()
	l.kill()
	forced := r.onMachine(newMachine(t), "worker", "release", "0", "--force", "--yes", "--clock-threshold", "10ms")
	require.Equal(t, cli.ExitOK, forced.Code, forced.Stderr)
	time.Sleep(worker.DefaultCeilingLead + time.Second) // its limit has passed
	heir := r.settling().start(frequent()...)
	require.Eventually(t, func() bool {
		e, stands := r.standing(0)
		return stands && e.State == "claiming"
	}, 2*eventually, tick, "the released worker ID is claimed")
	l = m.ready(frequent()...)
	require.EqualValues(t, 1, l.info().ID)
	require.True(t, l.hasLogged(`"alarm":"worker_id_lost"`), l.Log())
	heir.awaitReady()
	require.Zero(t, heir.info().ID)
	requireDistinct(t, append(append(got, l.some()...), heir.some()...))
	require.Zero(t, r.status().Losses)
	require.Equal(t, cli.ExitOK, l.stop())
	require.Equal(t, cli.ExitOK, heir.stop())
}

// A start that ends while it settles gives its claim back: beside Java Leafs, where ZooKeeper's counter is all
// that there is, new directories that never get ready use up one number.
func TestStartsThatEndWhileTheySettleBesideJavaLeafs(t *testing.T) {
	t.Parallel()
	r := newRestorable(t)
	o := newOnlooker(t, r.s, r.root)
	o.create(o.forever+"/10.0.0.9:8080-0000000000", javaEntry(t, "10.0.0.9:8080", clock.MillisOf(time.Now())), 0)
	for range 4 {
		l := r.settling().start(frequent()...)
		l.awaitLog("waiting: settling", "worker 1 is claimed")
		require.Equal(t, cli.ExitOK, l.stop())
	}
	require.Equal(t, []string{"10.0.0.9:8080-0000000000", entryName(1)}, o.entries())
	last := r.host().ready(frequent()...)
	require.EqualValues(t, 1, last.info().ID)
	require.Equal(t, cli.ExitOK, last.stop())
}

// late-release: a release that was filed while ZooKeeper was away is written by the next start, first.
func TestReleaseFiledWhileZooKeeperWasAway(t *testing.T) {
	t.Parallel()
	r := newRestorable(t)
	m := r.host(frequent()...)
	l := m.ready("--release-on-stop")
	got := l.some()
	was := l.info()
	r.s.Kill(t)
	require.Equal(t, cli.ExitOK, l.stop())
	r.s.Restart(t)
	e, _ := r.standing(0)
	require.Equal(t, "active", e.State)
	l = m.ready()
	require.Equal(t, was.ID, l.info().ID)
	require.Greater(t, l.info().Floor, was.Floor, "a new piece")
	require.Less(t, l.info().Floor, was.Limit)
	requireDistinct(t, append(got, l.some()...))
	require.Equal(t, cli.ExitOK, l.stop())
}

// bounded-claim: a thousand hints that lead nowhere keep no newcomer out.
func TestThousandHintsThatLeadNowhere(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	o := c.watch()
	first := c.machine(frequent()...).ready()
	o.each(1000, func(i int) error {
		_, err := o.make(fmt.Sprintf("%s/leaf_released/%010d", c.root, i), "", 0)
		return err
	})
	began := time.Now()
	second := c.machine(frequent()...).ready()
	require.Less(t, time.Since(began), 10*time.Second)
	require.EqualValues(t, 1, second.info().ID)
	require.Equal(t, cli.ExitOK, first.stop())
	require.Equal(t, cli.ExitOK, second.stop())
}
