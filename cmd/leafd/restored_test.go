package main

import (
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
