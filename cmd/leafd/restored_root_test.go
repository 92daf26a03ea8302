package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/zookeepertest"
)

// What the root of a cluster has to know for a ZooKeeper that is set back: the longest lease,
// the longest session, and its own age.

const day = 24 * time.Hour

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

// A cluster with a longest lease of 30 days is set back to a backup from before its first
// daemon. What the floor is made of was there already: eight days later, the daemon that is
// cut off still has its worker ID, and no other gets it.
func TestRestoredBeforeTheLongestLease(t *testing.T) {
	underLoad(t)
	r := newRestorable(t, "--longest-lease", "720h")
	backup := r.s.Backup(t)
	gap := zookeepertest.NewProxy(t, r.s.Addr())
	m := r.behind(gap, append(brisk(), "--lease", "720h", tune("MaxForwardStep", "1000h"))...)
	m.step(-31 * day) // its data directory is that old
	l := m.ready()
	all := l.some()
	require.Equal(t, cli.ExitOK, l.stop())
	m.step(31 * day)
	l = m.ready()
	require.Zero(t, l.info().ID)
	tr := newTraffic(t, l)
	tr.flows()
	require.Eventually(t, func() bool { return l.info().Limit > m.now().Add(29*day) }, eventually, tick)
	gap.Down(t)
	restored := m.now()
	r.s.Restore(t, backup)
	require.EqualValues(t, (30 * day).Milliseconds(), r.status().LongestLeaseMS)
	r.says("recover")
	require.Greater(t, r.status().Floor, l.info().Limit)

	newcomer := r.settling(brisk()...)
	r.s.SetClock(t, 8*day)
	newcomer.step(8 * day)
	m.step(8 * day)
	fresh := newcomer.start()
	tr.requireNothingEarly(fresh.tries(20 * time.Second))
	tr.flows()
	gap.Up(t)
	r.awaitBack(l, restored.Add(8*day))
	r.onMachine(newcomer, "cluster", "open", "--yes", "--clock-threshold", "10ms").OK(t)
	fresh.awaitReady()
	workerIDs := workerIDsOf(t, l, fresh)
	all = append(all, fresh.some()...)
	requireDistinct(t, slices.Concat(all, tr.unharmed(workerIDs)))
	require.Equal(t, cli.ExitOK, fresh.stop())
	require.Equal(t, cli.ExitOK, l.stop())
}

// ZooKeeper's clock was hours ahead when the cluster was made, so that the root is younger
// than nothing for hours. A claim settles all the same, and a daemon that ZooKeeper has forgotten
// puts its worker ID back meanwhile.
func TestRootMadeByAClockAhead(t *testing.T) {
	underLoad(t)
	r := madeAt(t, 3*time.Hour)
	backup := r.s.Backup(t)
	requireClaimYields(t, r, backup, r.host(append(brisk(), "--zk-session-timeout", slowSession)...), 25*time.Second)
}

// A claim settles for the longest session that the root knows of, however short its own is: a
// daemon that ZooKeeper has forgotten is refused for as long as its session lasts.
func TestClaimSettlesForTheLongestSession(t *testing.T) {
	underLoad(t)
	const longest = 20 * time.Second
	r := newRestorable(t)
	other := r.host(append(brisk(), "--zk-session-timeout", longest.String())...).ready()
	require.Equal(t, cli.ExitOK, other.stop())
	backup := r.s.Backup(t)
	requireClaimYields(t, r, backup, r.host(append(brisk(), "--zk-session-timeout", longest.String())...), longest+20*time.Second)
}

// requireClaimYields has a daemon of m get a worker ID that the backup doesn't know, puts the
// backup back, and starts another daemon at once: no daemon has noticed that anything was lost.
// The first one is refused for as long as its session lasts, and has its worker ID back within
// the time; the other one gets another.
func requireClaimYields(t *testing.T, r *restorable, backup zookeepertest.Backup, m *machine, within time.Duration) {
	t.Helper()
	holder := m.ready()
	tr := newTraffic(t, holder)
	tr.flows()
	restored := m.now()
	r.s.Restore(t, backup)
	fresh := r.settling(append(brisk(), "--zk-session-timeout", "4s")...).start()
	tr.requireNothingEarly(fresh.tries(within))
	tr.flows()
	r.awaitBack(holder, restored)
	require.EqualValues(t, 1, r.status().Losses)
	r.says("open")
	fresh.awaitReady()
	workerIDs := workerIDsOf(t, holder, fresh)
	requireDistinct(t, slices.Concat(tr.unharmed(workerIDs), fresh.some()))
	require.Zero(t, holder.raised()[codeFenced])
	require.Equal(t, cli.ExitOK, fresh.stop())
	require.Equal(t, cli.ExitOK, holder.stop())
}

// The clock jumps by a year while a claim settles. Nothing of that year is recorded, in
// ZooKeeper or in the file, nothing is issued in it, and once the clock is right again the
// daemon goes on, and starts again.
func TestClockJumpsWhileAClaimSettles(t *testing.T) {
	t.Parallel()
	r := newRestorable(t)
	m := r.settling(brisk()...)
	l := m.start()
	require.Eventually(t, func() bool {
		e, stands := r.standing(0)
		return stands && e.State == "claiming"
	}, eventually, 100*time.Millisecond)
	began := m.now()
	m.step(365 * day)
	var early []int64
	require.Eventually(t, func() bool {
		early = append(early, l.tries(100*time.Millisecond)...)
		return l.Ended() || len(early) > 0
	}, eventually, tick, "the start is refused")
	require.Empty(t, early[:min(len(early), 3)], "issued by a clock that nothing confirms")
	require.Equal(t, cli.ExitClock, l.ExitCode(), l.Log())
	requireOfThisYear := func() {
		t.Helper()
		e, stands := r.standing(0)
		require.True(t, stands)
		for what, at := range map[string]clock.Millis{"limit": e.Limit, "ceiling": e.Top, "timestamp": e.Time} {
			require.Less(t, at, began.Add(8*day), what)
		}
	}
	requireOfThisYear()
	m.step(-365 * day)
	l = m.start()
	l.awaitReady()
	all := l.some()
	requireOfThisYear()
	require.Equal(t, cli.ExitOK, l.stop())
	l = m.ready()
	all = append(all, l.some()...)
	require.Less(t, timeOf(t, slices.Max(all)), began.Add(day))
	requireDistinct(t, all)
	require.Equal(t, cli.ExitOK, l.stop())
}
