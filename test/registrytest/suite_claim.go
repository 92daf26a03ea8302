package registrytest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// In the Java Leaf every racer of the first start has worker 0.
func testFirstClaims(t *testing.T, w *World) {
	const n = 16
	daemons := make([]*daemon, n)
	for i := range daemons {
		daemons[i] = fresh(t, w, fmt.Sprintf("10.0.0.%d:8080", i), Options{})
	}
	errs := together(daemons, (*daemon).claim)
	var ids []int64
	for i, d := range daemons {
		require.NoError(t, errs[i])
		ids = append(ids, d.self.WorkerID)
		require.Equal(t, daemons[0].self.Cluster, d.self.Cluster)
		require.NotEmpty(t, d.self.Cluster)
	}
	for i, id := range slices.Sorted(slices.Values(ids)) {
		require.Equal(t, int64(i), id, "of %v", ids)
	}
	for _, e := range entries(t, w) {
		require.Equal(t, worker.StateActive, e.State)
		require.True(t, e.Live)
	}
	require.Eventually(t, func() bool { return len(peers(t, daemons[0])) == n-1 }, patience, 10*time.Millisecond)
}

func together(daemons []*daemon, do func(*daemon) error) []error {
	errs := make([]error, len(daemons))
	var group sync.WaitGroup
	for i, d := range daemons {
		group.Go(func() { errs[i] = do(d) })
	}
	group.Wait()
	return errs
}

func testOwnAgain(t *testing.T, w *World) {
	fresh(t, w, "other", Options{}).running()
	d := fresh(t, w, "a", Options{}).running()
	require.Equal(t, int64(1), d.self.WorkerID)
	require.NoError(t, d.report(true))
	recorded := d.self
	require.NoError(t, d.reg.Close())
	w.Init(snowflake.DefaultLayout()) // nothing new

	d = d.again()
	d.self.Timestamp, d.self.Ceiling = 5, 6 // an older record than the registry's
	found := d.look()
	require.Equal(t, worker.Lookup{
		Cluster: recorded.Cluster, Known: true, Peers: found.Peers, Settle: found.Settle,
		Entry: worker.Entry{
			WorkerID: 1, Node: "a", Address: address, State: worker.StateActive, Timestamp: recorded.Timestamp, Ceiling: recorded.Ceiling,
			Owner: recorded.Owner, Instance: recorded.Instance, Floor: recorded.Floor, Limit: recorded.Limit,
		},
	}, found)
	require.NoError(t, d.claimAsSeen())
	require.Equal(t, int64(1), d.self.WorkerID)
	require.Equal(t, recorded.Cluster, d.self.Cluster)
	require.Equal(t, recorded.Timestamp, d.self.Timestamp, "what the worker ID brings along")
	require.Equal(t, recorded.Ceiling, d.self.Ceiling)
	e := entryOf(t, w, 1)
	require.Equal(t, d.self.Owner, e.Owner)
	require.Equal(t, recorded.Ceiling, e.Ceiling, "a ceiling never falls")
	require.NoError(t, d.report(true))
}

// Several entries are our instance's: made by hand, say.
func testSeveralOwn(t *testing.T, w *World) {
	for id, state := range map[int64]worker.EntryState{3: worker.StateReleased, 5: worker.StateActive, 7: worker.StateActive} {
		w.Plant(worker.Entry{WorkerID: id, Node: "a", Address: address, State: state, Timestamp: clock.Millis(id), Ceiling: clock.Millis(id), Limit: clock.Millis(id), Owner: "old", Instance: "ours"})
	}
	for recorded, want := range map[int64]int64{worker.NoWorkerID: 5, 7: 7, 3: 3, 9: 5} {
		d := fresh(t, w, "a", Options{})
		d.self.WorkerID, d.self.Instance = recorded, "ours"
		found := d.look()
		require.Equal(t, want, found.WorkerID, "recorded %d", recorded)
		require.Equal(t, clock.Millis(want), found.Ceiling)
	}
}

// Made by hand, say: it is nobody's to issue under, and a claim is none.
func testTwoEntries(t *testing.T, w *World) {
	ahead := w.Clock().Read().Wall().Add(time.Hour)
	for id, states := range [][2]worker.EntryState{
		{worker.StateActive, worker.StateActive},
		{worker.StateActive, worker.StateReleased},
		{worker.StateReleased, worker.StateActive},
		{worker.StateActive, worker.StateClaiming},
	} {
		for i, state := range states {
			node, limit := fmt.Sprintf("%c%d", 'a'+i, id), ahead
			if state == worker.StateReleased {
				limit = 2 // nobody waits for it
			}
			w.Plant(worker.Entry{WorkerID: int64(id), Node: node, Address: address, State: state, Timestamp: 1, Ceiling: 1, Limit: limit, Owner: node, Instance: node})
		}
	}
	of := func(instance string) *daemon {
		d := fresh(t, w, instance, Options{})
		d.self.Instance = instance
		return d
	}
	for _, node := range []string{"a0", "b0", "a1", "b2"} {
		require.ErrorIs(t, of(node).claim(), worker.ErrHeld, node)
	}
	for _, node := range []string{"b1", "a2"} {
		require.Greater(t, of(node).running().self.WorkerID, int64(3), node)
	}
	require.NoError(t, of("a3").claim())
	d := of("b3").running()
	require.Greater(t, d.self.WorkerID, int64(3), "the claim was of a worker ID that is another's")
	require.Greater(t, fresh(t, w, "new", Options{}).running().self.WorkerID, int64(3), "released, but not its to give")
}

func testLostWhileClaiming(t *testing.T, w *World) {
	w.Plant(worker.Entry{WorkerID: 40, Node: "gone", Address: address, State: worker.StateReleased, Owner: "old", Instance: "gone", Timestamp: 1, Ceiling: 2, Limit: 3})
	i := 0
	for _, done := range []bool{true, false} {
		for n := 1; n <= 3; n++ {
			i++
			d := fresh(t, w, fmt.Sprintf("node-%d", i), Options{})
			for range 2 { // a first life, and the one after it
				d.look()
				w.LoseAnswer(d.reg, n, done)
				require.NoError(t, d.claimAsSeen())
				w.LoseAnswer(d.reg, 0, true)
				require.True(t, i > 1 || d.self.WorkerID == 40, "the released one")
				require.Len(t, entries(t, w), i, "lost answer %d, done %t: one entry each", n, done)
				require.NoError(t, d.report(true))
				require.NoError(t, d.reg.Close())
				d = d.again()
			}
		}
	}
}

func testLostWhileReporting(t *testing.T, w *World) {
	for _, done := range []bool{true, false} {
		d := fresh(t, w, fmt.Sprintf("a%t", done), Options{}).running()
		for range 3 {
			w.LoseAnswer(d.reg, 1, done)
			require.ErrorIs(t, d.report(true), worker.ErrUnreachable)
			require.NoError(t, d.report(true))
		}
		w.LoseAnswer(d.reg, 1, done)
		require.ErrorIs(t, d.report(true), worker.ErrUnreachable)
		w.LoseAnswer(d.reg, 1, false)
		require.ErrorIs(t, d.report(true), worker.ErrUnreachable)
		require.NoError(t, d.report(true))
		require.Equal(t, d.self.Ceiling, entryOf(t, w, d.self.WorkerID).Ceiling)

		// What another wrote after a lost answer is still another's.
		w.LoseAnswer(d.reg, 1, done)
		require.ErrorIs(t, d.report(true), worker.ErrUnreachable)
		w.Rewrite(d.self.WorkerID, "intruder")
		requireFenced(t, d, "intruder")
	}
}

// However far it has come with noting the loss and putting its worker ID back, under the name
// that its node has now; and it is told of the loss once.
func testRemoved(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{}).running()
	for _, done := range []bool{true, false} {
		for n := range 7 { // 0: all answers come
			require.NoError(t, d.reg.Close())
			d.self.Node = fmt.Sprintf("renamed %d %t", n, done)
			d = d.again().running()
			before := d.self.Losses
			w.Remove(0)
			w.LoseAnswer(d.reg, n, done)
			if err := d.report(true); err != nil {
				require.ErrorIs(t, err, worker.ErrUnreachable)
			}
			w.LoseAnswer(d.reg, 0, true)
			require.True(t, n > 0 || d.self.Losses == before+1, "counted once")
			require.NoError(t, d.report(true), "lost answer %d, done %t", n, done)
			require.Equal(t, d.self.Limit, entryOf(t, w, 0).Limit)
			require.Eventually(t, func() bool { return w.ToldOfLoss(d.reg) == 1 }, patience, time.Millisecond)
		}
	}
}

func testUnfinishedClaim(t *testing.T, w *World) {
	w.Plant(worker.Entry{WorkerID: 0, Node: "a", Address: address, State: worker.StateClaiming, Owner: "dead", Instance: "ours", Timestamp: 1, Ceiling: 1})
	d := fresh(t, w, "a", Options{})
	d.self.Instance = "ours"
	require.False(t, d.look().Known, "nothing was issued under it")
	require.NoError(t, d.claimAsSeen())
	require.Equal(t, int64(0), d.self.WorkerID)
	require.Len(t, entries(t, w), 1)
	require.Equal(t, worker.StateActive, entryOf(t, w, 0).State)

	// Nobody's: it is the next one's.
	w.Plant(worker.Entry{WorkerID: 7, Node: "b", Address: address, State: worker.StateClaiming, Owner: "dead", Instance: "gone", Timestamp: 1, Ceiling: 1})
	require.Equal(t, int64(7), fresh(t, w, "c", Options{}).running().self.WorkerID)
}
