package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/zookeepertest"
)

// Sequences around a ZooKeeper that was set back to a backup. Each of them gave two daemons
// one worker ID, or took one away for as long as a lease, when an entry's path had its
// holder's name, and what was lost was judged in five places.

const slowSession = "6s" // for as long as that, a holder that was not cut off is refused

// A daemon with --release-on-stop stops, and another one takes its worker ID. ZooKeeper is
// set back to when the first one had it. The first one, started again, knows that it
// released the worker ID, and leaves it to its holder, which is cut off or just refused.
func TestRestoredBeforeARelease(t *testing.T) {
	for _, tc := range []struct {
		name            string
		cutOff, recover bool
	}{
		{"holder cut off", true, true},
		{"holder connected", false, true},
		{"holder connected, and no operator says recover", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			underLoad(t)
			r := newRestorable(t)
			gap := zookeepertest.NewProxy(t, r.s.Addr())
			released := r.host(append(brisk(), "--release-on-stop", "--startup-timeout", "5m")...)
			held := r.behind(gap, append(brisk(), "--zk-session-timeout", slowSession)...)
			first := released.ready()
			require.Zero(t, first.info().ID)
			all := first.some()
			backup := r.s.Backup(t)
			require.Equal(t, cli.ExitOK, first.stop())
			holder := held.ready()
			require.Zero(t, holder.info().ID, "it was released")
			tr := newTraffic(t, holder)
			tr.flows()

			restored := held.now()
			if tc.cutOff {
				gap.Down(t)
			}
			r.s.Restore(t, backup)
			if tc.recover {
				r.says("recover")
			}
			released.settle = 0
			first = released.start()
			tr.requireNothingEarly(first.tries(20 * time.Second))
			tr.flows()
			if tc.cutOff {
				gap.Up(t)
			}
			r.awaitBack(holder, restored)
			require.EqualValues(t, 1, r.status().Losses)
			tr.flows()
			r.says("open")
			first.awaitReady()
			workerIDs := workerIDsOf(t, holder, first)
			require.Zero(t, workerIDs[holder])
			later := newTraffic(t, first)
			later.flows()
			tr.flows()
			requireDistinct(t, slices.Concat(all, tr.unharmed(workerIDs), later.unharmed(workerIDs)))
			for _, l := range []*child{first, holder} {
				require.Zero(t, l.raised()[codeFenced])
				require.Equal(t, cli.ExitOK, l.stop())
			}
		})
	}
}

// A claim stands beyond the layout, as one leaves it that was cut short there. It says nothing
// of the worker ID that its daemon has: the daemon's next start tells that ZooKeeper was set
// back, so that no daemon gets the worker ID of another one, which is cut off.
func TestClaimBeyondTheLayoutHidesNoLoss(t *testing.T) {
	underLoad(t)
	r := newRestorable(t)
	gap := zookeepertest.NewProxy(t, r.s.Addr())
	m, away := r.host(brisk()...), r.behind(gap, brisk()...)
	l := m.ready()
	all := l.some()
	claim := znode{
		IP: "127.0.0.1", Port: "1", Timestamp: m.now(), Ceiling: m.now(), Floor: m.now(), Limit: m.now(),
		Instance: l.info().Instance, Owner: l.info().Owner, State: "claiming",
	}
	r.tree(r.s).create(r.workerPath(1030), []byte(jsonText(t, claim)), 0)
	backup := r.s.Backup(t)
	holder := away.ready()
	tr := newTraffic(t, holder)
	tr.flows()
	require.Equal(t, cli.ExitOK, l.stop())
	gap.Down(t)
	restored := away.now()
	r.s.Restore(t, backup)

	l = m.ready()
	require.Zero(t, l.info().ID)
	all = append(all, l.some()...)
	newcomer := r.settling(brisk()...)
	fresh := newcomer.start()
	tr.requireNothingEarly(fresh.tries(20 * time.Second))
	tr.flows()
	require.EqualValues(t, 1, r.status().Losses, "the start has told the loss")
	gap.Up(t)
	r.awaitBack(holder, restored)
	r.says("open")
	fresh.awaitReady()
	workerIDs := workerIDsOf(t, l, holder, fresh)
	all = append(all, fresh.some()...)
	requireDistinct(t, slices.Concat(all, tr.unharmed(workerIDs)))
	for _, l := range []*child{l, holder, fresh} {
		require.Equal(t, cli.ExitOK, l.stop())
	}
}

// backAgain is how long it may take until every daemon has its worker ID after restore and
// recover.
const backAgain = time.Minute

// Daemons were restarted twice since the backup, as by two upgrades: the lives that it knows
// are none that they know. That it is older is judged first, and none is taken for a copy.
func TestRestartedTwiceSinceTheBackup(t *testing.T) {
	underLoad(t)
	r := newRestorable(t)
	var machines []*machine
	var daemons []*child
	for range 4 {
		m := r.host(brisk()...)
		machines, daemons = append(machines, m), append(daemons, m.ready())
	}
	workerIDs := workerIDsOf(t, daemons...)
	var all []int64
	backup := r.s.Backup(t)
	for range 2 {
		for i, l := range daemons {
			require.Equal(t, cli.ExitOK, l.stop())
			daemons[i] = machines[i].ready()
			require.Equal(t, workerIDs[l], daemons[i].info().ID)
			workerIDs[daemons[i]] = workerIDs[l]
			all = append(all, daemons[i].some()...)
		}
	}
	// Two run on while ZooKeeper is set back, one is stopped, and one is killed.
	running := daemons[:2]
	tr := newTraffic(t, running...)
	tr.flows()
	instances := map[*machine]string{}
	for i, l := range daemons {
		instances[machines[i]] = l.info().Instance
	}
	require.Equal(t, cli.ExitOK, daemons[2].stop())
	daemons[3].kill()
	r.s.Restore(t, backup)
	restored := machines[0].now()
	r.says("recover")
	for i, m := range machines[2:] {
		m.settle = 0
		was := daemons[2+i]
		daemons[2+i] = m.start("--startup-timeout", "5m")
		workerIDs[daemons[2+i]] = workerIDs[was]
	}
	for i, l := range daemons {
		l.awaitStatus("/readyz", 200)
		r.awaitBack(l, restored)
		require.Equal(t, instances[machines[i]], l.info().Instance)
		require.Equal(t, workerIDs[l], l.info().ID)
	}
	took := machines[0].now().Sub(restored)
	require.Less(t, took, backAgain)
	t.Logf("every daemon is back %s after the restore", took)
	for _, l := range daemons[2:] {
		all = append(all, l.some()...)
	}
	tr.flows()
	requireDistinct(t, slices.Concat(all, tr.unharmed(workerIDs)))
	require.EqualValues(t, 1, r.status().Losses, "one loss, told once")
	for _, l := range daemons {
		require.Zero(t, l.raised()[codeFenced])
		require.False(t, l.hasLogged(lineSetAside), l.Log())
		require.Equal(t, cli.ExitOK, l.stop())
	}
}

// A worker ID was taken from a dead daemon by the operator's word, so that the piece after it
// has a later floor and, with a shorter lease, an earlier limit. ZooKeeper is set back to when
// the dead one had it: the one after it has it back, running or started.
func TestRestoredBeforeASuccession(t *testing.T) {
	underLoad(t)
	r := newRestorable(t)
	var dead, heirs []*machine
	var daemons []*child
	for range 2 {
		m := r.host(brisk()...)
		dead, daemons = append(dead, m), append(daemons, m.ready())
	}
	workerIDs := workerIDsOf(t, daemons...)
	var all []int64
	for _, l := range daemons {
		all = append(all, l.some()...)
	}
	backup := r.s.Backup(t)
	for i, l := range daemons {
		l.kill()
		freed := r.onMachine(dead[i], "worker", "release", fmt.Sprint(workerIDs[l]), "--force", "--yes", "--clock-threshold", "10ms")
		require.Equal(t, cli.ExitOK, freed.Code, freed.Stderr)
	}
	limits := map[int64]zentry{}
	for i := range dead {
		e, stands := r.standing(int64(i))
		require.True(t, stands)
		require.Equal(t, "released", e.State)
		limits[int64(i)] = e
		dead[i].passes(e.Limit.Sub(dead[i].now()) + time.Second)
	}
	gap := zookeepertest.NewProxy(t, r.s.Addr())
	for i := range dead {
		m := r.behind(gap, append(brisk(), "--lease", "10m")...)
		l := m.ready()
		heirs, daemons[i] = append(heirs, m), l
		workerIDs[l] = l.info().ID
		require.Less(t, l.info().ID, int64(2), "a worker ID of a dead one")
		require.GreaterOrEqual(t, l.info().Floor, limits[l.info().ID].Limit)
		all = append(all, l.some()...)
	}
	workerIDsOf(t, daemons...)
	tr := newTraffic(t, daemons[0])
	tr.flows()
	workerID := daemons[1].info().ID
	require.Equal(t, cli.ExitOK, daemons[1].stop())

	gap.Down(t)
	r.s.Restore(t, backup)
	for i := range int64(2) {
		e, _ := r.standing(i)
		require.Greater(t, e.Limit, heirs[0].now().Add(time.Hour), "the dead one's piece goes on for longer")
	}
	gap.Up(t)
	restored := heirs[0].now()
	r.says("recover")
	heirs[1].settle = 0
	daemons[1] = heirs[1].start("--startup-timeout", "5m")
	workerIDs[daemons[1]] = workerID
	for _, l := range daemons {
		l.awaitStatus("/readyz", 200)
		require.Equal(t, workerIDs[l], l.info().ID)
		r.awaitBack(l, restored)
	}
	took := heirs[0].now().Sub(restored)
	require.Less(t, took, backAgain)
	t.Logf("every daemon is back %s after the restore", took)
	all = append(all, daemons[1].some()...)
	tr.flows()
	requireDistinct(t, slices.Concat(all, tr.unharmed(workerIDs)))
	for _, l := range daemons {
		require.Zero(t, l.raised()[codeFenced])
		require.Zero(t, l.raised()["worker_id_lost"])
		require.Equal(t, cli.ExitOK, l.stop())
	}
}
