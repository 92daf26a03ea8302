package inspect

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

func TestFind(t *testing.T) {
	t.Parallel()
	list := List{Workers: []Worker{
		{ID: 1, Node: "b", State: views.WorkerForeign},
		{ID: 1, Node: "c", State: views.WorkerLive},
		{ID: 2, Node: "d", State: views.WorkerSettling},
	}}
	for id, node := range map[string]string{"1": "b", "2": "d"} {
		got, err := list.Find(id)
		require.NoError(t, err)
		require.Equal(t, node, got.Node)
	}
	_, err := list.Find("3")
	require.ErrorIs(t, err, worker.ErrNoEntry)
	require.ErrorContains(t, err, "worker ID 3 has no entry")
}

// What is left for new daemons is what no holder has, was given back, or is past its limit.
func TestLeft(t *testing.T) {
	t.Parallel()
	const now = clock.Millis(1_800_000_000_000)
	layout, err := snowflake.ParseLayout("41+5+5+12", snowflake.DefaultEpoch)
	require.NoError(t, err)
	dir := directory{entries: []worker.Entry{
		{WorkerID: 0, State: worker.StateActive, Live: true, Timestamp: now, Limit: now.Add(time.Hour)},
		{WorkerID: 1, State: worker.StateActive, Timestamp: now.Add(-time.Hour), Limit: now.Add(time.Hour)},
		{WorkerID: 2, State: worker.StateActive, Timestamp: now.Add(-time.Hour), Limit: now.Add(-time.Second)},
		{WorkerID: 3, State: worker.StateActive, Timestamp: now.Add(-25 * time.Hour), Limit: now.Add(time.Hour)},
		{WorkerID: 4, State: worker.StateReleased, Timestamp: now.Add(-time.Hour), Limit: now},
		{WorkerID: 5, State: worker.StateReleased, Timestamp: now.Add(-time.Hour), Limit: now.Add(16 * time.Second)},
		{WorkerID: 6, State: "damaged"},
		{WorkerID: 40, State: worker.StateActive, Timestamp: now, Limit: now.Add(time.Hour)},
		{WorkerID: 7, State: zkreg.StateJava, Timestamp: now.Add(-100 * 24 * time.Hour)},
	}}
	l, err := ListWorkers(t.Context(), dir, layout, func() clock.Millis { return now })
	require.NoError(t, err)
	require.Equal(t, Summary{Entries: 9, Live: 1, NotLive: 4, Released: 2, Foreign: 1, Damaged: 1, Capacity: 32, Free: 26}, l.Summary)
	require.Equal(t, "9 entries, 1 live, 4 not live, 2 released, 1 foreign, 1 damaged, 26 free of 32", l.Summary.Sentence())

	floor := now.Add(7 * 24 * time.Hour)
	dir.floor = floor
	l, err = ListWorkers(t.Context(), dir, layout, func() clock.Millis { return now })
	require.NoError(t, err)
	require.Zero(t, l.Summary.Free)
	require.Equal(t, floor, l.Summary.ClosedUntil)
	require.Equal(t, floor, *l.Workers[2].FreeFrom, "its own piece is over, and the cluster is closed")
	require.Contains(t, l.Summary.Sentence(), ", 0 free until 2027-01-22 08:00:00: ")
	dir.floor = now
	l, err = ListWorkers(t.Context(), dir, layout, func() clock.Millis { return now })
	require.NoError(t, err)
	require.EqualValues(t, 26, l.Summary.Free, "the floor has passed")
	dir.floor = -1
	l, err = ListWorkers(t.Context(), dir, layout, func() clock.Millis { return now })
	require.NoError(t, err)
	require.Zero(t, l.Summary.Free, "no cluster, no new worker ID")
	require.Contains(t, l.Summary.Sentence(), ", none free: nothing is at the root")
}

// directory is a Directory with a root of that floor; of none where that is negative.
type directory struct {
	entries []worker.Entry
	floor   clock.Millis
}

func (d directory) Entries(context.Context) ([]worker.Entry, error) { return d.entries, nil }

func (d directory) Look(context.Context, worker.Record) (worker.Snapshot, error) {
	if d.floor < 0 {
		return worker.Snapshot{}, nil
	}
	return worker.Snapshot{Root: &worker.Root{Floor: d.floor}}, nil
}
