package registrytest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/worker"
)

func testRelease(t *testing.T, w *World) {
	ctx := patient(t)
	dir := w.Directory()
	d := fresh(t, w, "a", Options{}).running()
	require.NoError(t, d.report())
	_, err := dir.Release(ctx, 0, false)
	require.ErrorIs(t, err, worker.ErrInUse, "it is live")
	d.stop()
	_, err = dir.Release(ctx, 0, false)
	require.ErrorIs(t, err, worker.ErrInUse, "its limit has not passed")
	before := entryOf(t, w, 0)
	require.Equal(t, worker.StateActive, before.State)
	released, err := dir.Release(ctx, 0, true)
	require.NoError(t, err)
	released.Stat = worker.Stat{}
	require.Less(t, released.Limit, before.Limit)
	require.Greater(t, released.Limit, before.Ceiling, "it may have issued while it could not report")
	before.State, before.Limit = worker.StateReleased, released.Limit
	require.Equal(t, before, released)
	require.Equal(t, before, entryOf(t, w, 0), "the rest stays")
	released, err = dir.Release(ctx, 0, false)
	require.NoError(t, err, "again")
	released.Stat = worker.Stat{}
	require.Equal(t, before, released)
	_, err = dir.Release(ctx, 1, true)
	require.ErrorIs(t, err, worker.ErrNoEntry)
}

// A copy of the directory, which nothing tells from it, starts while the original reports: it
// watches it, finds that out, and becomes an instance of its own.
func testCopied(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{}).running()
	require.NoError(t, d.report())
	c := d.copied().running()
	require.Positive(t, c.told(worker.EventRecordLost))
	require.NotEqual(t, d.Record().Instance, c.Record().Instance)
	requireOneEach(t, w, []*daemon{d, c})
	require.NoError(t, d.report())
	require.NoError(t, c.report())
	require.NotZero(t, d.Since())
}

func testLive(t *testing.T, w *World) {
	watcher := fresh(t, w, "w", Options{}).running()
	requirePeers(t, watcher)
	d := fresh(t, w, "a", Options{}).running()
	require.NoError(t, d.report())
	requirePeers(t, watcher, "a:1")
	w.Expire("a:1")
	require.NoError(t, d.report())
	requirePeers(t, watcher, "a:1")
	w.PlantLive("10.0.0.7:1", "other", "other")
	requirePeers(t, watcher, "10.0.0.7:1", "a:1")
	d.stop()
	require.NoError(t, d.reg.Close(), "twice")
	requirePeers(t, watcher, "10.0.0.7:1")
}

// requireFenced requires that d's life ends, for what text names, and writes nothing any more.
func requireFenced(t *testing.T, d *daemon, text string) {
	t.Helper()
	var err error
	require.Eventually(t, func() bool { err = d.report(); return err != nil && d.Since() == 0 }, patience, time.Millisecond)
	require.ErrorIs(t, err, worker.ErrFenced)
	require.ErrorContains(t, err, text)
}

// The operator's word ends the life, and its directory never has that worker ID again by itself.
func testReleasedByForce(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{}).running()
	require.NoError(t, d.report())
	instance := d.Record().Instance
	w.Down() // or its next report may come before the release
	_, err := w.Directory().Release(patient(t), 0, true)
	require.NoError(t, err)
	w.Up()
	requireFenced(t, d, "released")
	require.Equal(t, worker.StateReleased, entryOf(t, w, 0).State)
	d.halt()
	other := fresh(t, w, "b", Options{}).running() // its limit lies ahead, or has just passed
	d.running()
	require.Equal(t, instance, d.Record().Instance)
	requireOneEach(t, w, []*daemon{d, other})
	if d.ID() == 0 {
		require.Positive(t, d.Record().Floor, "another piece")
	}
}
