package registrytest

import (
	"testing"

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
