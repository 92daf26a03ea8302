package registrytest

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// small makes a cluster that has room for four workers.
func small(t testing.TB, w *World) Options {
	t.Helper()
	layout, err := snowflake.ParseLayout("41+2+20", snowflake.DefaultEpoch)
	require.NoError(t, err)
	w.Init(layout)
	return Options{Layout: layout}
}

func testRelease(t *testing.T, w *World) {
	ctx := patient(t)
	dir := w.Directory()
	d := fresh(t, w, "a", Options{}).running()
	_, err := dir.Release(ctx, 0, false)
	require.ErrorIs(t, err, worker.ErrInUse, "it is live")
	require.NoError(t, d.reg.Close())
	_, err = dir.Release(ctx, 0, false)
	require.ErrorIs(t, err, worker.ErrInUse, "its limit has not passed")
	require.Equal(t, worker.StateActive, entryOf(t, w, 0).State)
	before := entryOf(t, w, 0)
	released, err := dir.Release(ctx, 0, true)
	require.NoError(t, err)
	require.Less(t, released.Limit, before.Limit)
	require.Greater(t, released.Limit, before.Ceiling, "it may have issued while it could not report")
	before.State, before.Limit = worker.StateReleased, released.Limit
	require.Equal(t, before, released)
	require.Equal(t, before, entryOf(t, w, 0), "the rest stays")
	released, err = dir.Release(ctx, 0, false)
	require.NoError(t, err, "again")
	require.Equal(t, before, released)
	_, err = dir.Release(ctx, 1, true)
	require.ErrorIs(t, err, worker.ErrNoEntry)
}

// Eight claimants, one released entry: one takes it, with its limit as floor. What lies
// ahead of the clock is nobody's.
func testTakeover(t *testing.T, w *World) {
	now := w.Clock().Read().Wall()
	w.Plant(worker.Entry{WorkerID: 0, Node: "old", Address: address, State: worker.StateReleased, Timestamp: now - 1000, Ceiling: now - 20, Owner: "old", Instance: "old", Limit: now - 10})
	w.Plant(worker.Entry{WorkerID: 1, Node: "wrong", Address: address, State: worker.StateReleased, Timestamp: now + 3_600_000, Ceiling: now + 3_600_000, Owner: "old", Instance: "wrong", Limit: now + 3_600_000})
	daemons := make([]*daemon, 8)
	for i := range daemons {
		daemons[i] = fresh(t, w, string(rune('a'+i)), Options{})
		daemons[i].look()
	}
	errs := together(daemons, (*daemon).claimAsSeen)
	ids := map[int64]bool{}
	for i, d := range daemons {
		require.NoError(t, errs[i])
		require.False(t, ids[d.self.WorkerID], "worker %d twice", d.self.WorkerID)
		ids[d.self.WorkerID] = true
		if d.self.WorkerID == 0 {
			require.Equal(t, now-10, d.self.Floor)
			require.Equal(t, now-10, entryOf(t, w, 0).Floor)
		} else {
			require.Zero(t, d.self.Floor)
		}
		require.Greater(t, d.self.Limit, now)
	}
	require.True(t, ids[0], "nobody took the released one")
	require.False(t, ids[1], "a clock that was wrong has poisoned it")
	require.Len(t, entries(t, w), 9)
}

func testExhaustion(t *testing.T, w *World) {
	opts := small(t, w)
	for i := range 4 {
		d := fresh(t, w, string(rune('a'+i)), opts).running()
		require.Equal(t, int64(i), d.self.WorkerID)
		require.NoError(t, d.reg.Close())
	}
	before := entries(t, w)
	d := fresh(t, w, "one too many", opts)
	for range 2 {
		require.ErrorIs(t, d.claim(), worker.ErrExhausted)
		require.Equal(t, before, entries(t, w), "it left something behind")
		require.Empty(t, peers(t, fresh(t, w, "watcher", opts)))
	}
	_, err := w.Directory().Release(patient(t), 2, true)
	require.NoError(t, err)
	require.NoError(t, d.claim(), "the same process may try again")
	require.Equal(t, int64(2), d.self.WorkerID)
	require.NoError(t, d.report(true))
}

// The counter counts takeovers too: it is spent while worker IDs are free. They are
// given out then, each after it has settled, and to one node.
func testGaps(t *testing.T, w *World) {
	opts := small(t, w)
	require.Equal(t, int64(0), fresh(t, w, "a", opts).running().self.WorkerID)
	for i := range 4 {
		d := fresh(t, w, "short-lived"+string(rune('a'+i)), opts).running()
		require.Equal(t, int64(1), d.self.WorkerID)
		require.NoError(t, d.release())
		require.NoError(t, d.reg.Close())
		time.Sleep(10 * time.Millisecond)
	}
	require.Equal(t, int64(1), fresh(t, w, "b", opts).running().self.WorkerID)

	both := []*daemon{fresh(t, w, "y", opts), fresh(t, w, "z", opts)}
	require.NoError(t, errors.Join(together(both, (*daemon).claim)...))
	require.ElementsMatch(t, []int64{2, 3}, []int64{both[0].self.WorkerID, both[1].self.WorkerID})
	require.ErrorIs(t, fresh(t, w, "one too many", opts).claim(), worker.ErrExhausted)
	require.Len(t, entries(t, w), 4)
}

// A worker ID comes back by itself once its limit has passed and nobody is live under it.
func testLimitPassed(t *testing.T, w *World) {
	opts := small(t, w)
	opts.Lease = w.Lease
	w.Plant(worker.Entry{WorkerID: 0, Node: "10.0.0.9:8080", Address: "10.0.0.9:8080", State: worker.StateActive, Timestamp: 1}) // a Java Leaf's
	gone := fresh(t, w, "gone", opts).running()
	time.Sleep(time.Millisecond)
	live := fresh(t, w, "live", opts).running()
	long := fresh(t, w, "long", Options{Layout: opts.Layout}).running()
	for _, d := range []*daemon{gone, long} {
		require.NoError(t, d.reg.Close())
	}
	before := entryOf(t, w, gone.self.WorkerID)
	require.Equal(t, gone.self.Limit, before.Limit)
	d := fresh(t, w, "new", opts)
	err := d.claim()
	require.ErrorIs(t, err, worker.ErrExhausted, "too early")
	require.ErrorContains(t, err, before.Limit.String(), "it says when one comes back")
	time.Sleep(w.Lease)
	require.NoError(t, d.claim())
	require.Equal(t, gone.self.WorkerID, d.self.WorkerID)
	require.Equal(t, before.Limit, d.self.Floor)
	require.NoError(t, live.report(true), "it was left alone")
	require.ErrorIs(t, gone.again().claim(), worker.ErrExhausted, "who comes back is a new one")
}

// A second daemon of this name on a data directory of its own: names are labels.
func testSharedName(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{}).running()
	second := fresh(t, w, "a", Options{})
	require.Empty(t, second.look().LiveOwner)
	require.NoError(t, second.claimAsSeen())
	require.NotEqual(t, d.self.WorkerID, second.self.WorkerID)
	for range 2 {
		require.NoError(t, d.report(true))
		require.NoError(t, second.report(true))
		requirePeers(t, fresh(t, w, "watcher", Options{}), "a", "a")
		requirePeers(t, d, "a")
		requirePeers(t, second, "a")
	}
	require.NoError(t, second.reg.Close())
	requirePeers(t, d)
	require.True(t, entryOf(t, w, d.self.WorkerID).Live)
	require.False(t, entryOf(t, w, second.self.WorkerID).Live)
}

// A life of our instance that the record doesn't know: it has to be gone.
func testUnknownLifeDied(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{SessionTimeout: 3 * time.Second}).running()
	w.Kill(d.reg)
	second := d.again()
	second.self.Acked = ""
	require.NoError(t, second.claim())
	require.Equal(t, d.self.WorkerID, second.self.WorkerID)
	require.NoError(t, second.report(true))
}

// kill -9 and started again: its own ephemeral node, which here would stand for
// ever, doesn't hold it up.
func testOwnDead(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{}).running()
	require.NoError(t, d.report(false))
	w.Kill(d.reg)
	w.PlantLive(worker.Peer{Node: "a", Address: address, Owner: d.self.Owner, Instance: d.self.Instance})
	again := d.again()
	require.Equal(t, d.self.Owner, again.look().LiveOwner)
	require.NoError(t, again.claimAsSeen())
	require.Equal(t, d.self.WorkerID, again.self.WorkerID)
	require.NoError(t, again.report(true))
	all, err := fresh(t, w, "watcher", Options{}).reg.Peers(patient(t))
	require.NoError(t, err)
	require.Equal(t, []worker.Peer{{Node: "a", Address: address, Owner: again.self.Owner, Instance: again.self.Instance}}, all)
}

// The directory was copied with the record in it, so the live owner is one that our record knows. It
// reports while we wait for its ceiling, as the worker does, or, where that has passed when
// the copy looks, while that watches by itself.
func copiedDirectory(late bool) func(t *testing.T, w *World) {
	return func(t *testing.T, w *World) {
		d := fresh(t, w, "a", Options{}).running()
		if !late {
			require.NoError(t, d.report(true))
		}
		copied := d.again()
		require.Equal(t, late, copied.look().Ceiling <= w.Clock().Read().Wall())
		reports := 0
		report := func() {
			require.NoError(t, d.report(true))
			reports++
		}
		if late {
			w.Clock().OnSleep(report)
		} else {
			report()
		}
		require.ErrorIs(t, copied.claimAsSeen(), worker.ErrHeld)
		w.Clock().OnSleep(nil)
		require.Positive(t, reports, "it never watched")
		require.NoError(t, d.report(true))
	}
}
