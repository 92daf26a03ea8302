package inspect

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

func TestFindEntry(t *testing.T) {
	t.Parallel()
	entries := []worker.Entry{
		{WorkerID: 1, Node: "b", State: zkreg.StateJava},
		{WorkerID: 1, Node: "c", State: worker.StateActive},
		{WorkerID: 2, Node: "d", State: worker.StateClaiming},
	}
	for id, node := range map[int64]string{1: "b", 2: "d"} {
		got, err := FindEntry(entries, id)
		require.NoError(t, err)
		require.Equal(t, node, got.Node)
	}
	_, err := FindEntry(entries, 3)
	require.ErrorIs(t, err, worker.ErrNoEntry)
	require.ErrorContains(t, err, "worker ID 3 has no entry")
}

func TestShownState(t *testing.T) {
	t.Parallel()
	const now = clock.Millis(1_800_000_000_000)
	for _, tc := range []struct {
		name  string
		entry worker.Entry
		want  string
	}{
		{"live", worker.Entry{State: worker.StateActive, Live: true, Timestamp: now}, Live},
		{"live, though it doesn't report", worker.Entry{State: worker.StateActive, Live: true, Timestamp: 1}, Live},
		{"active", worker.Entry{State: worker.StateActive, Timestamp: now.Add(-24*time.Hour + time.Millisecond), Limit: now + 1}, Active},
		{"active, its clock ahead", worker.Entry{State: worker.StateActive, Timestamp: now.Add(time.Hour), Limit: now.Add(2 * time.Hour)}, Active},
		{"stale", worker.Entry{State: worker.StateActive, Timestamp: now.Add(-24 * time.Hour), Limit: now + 1}, Stale},
		{"expired", worker.Entry{State: worker.StateActive, Timestamp: now.Add(-time.Hour), Limit: now}, Expired},
		{"live beyond its limit", worker.Entry{State: worker.StateActive, Live: true, Timestamp: 1, Limit: 2}, Live},
		{"released while it lives", worker.Entry{State: worker.StateReleased, Live: true}, Released},
		{"claiming", worker.Entry{State: worker.StateClaiming, Live: true}, Claiming},
		{"damaged", worker.Entry{State: "damaged", Live: true}, Damaged},
		{"of a newer leafd", worker.Entry{State: "retired"}, Damaged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, shownState(tc.entry, now))
		})
	}
}

// What is left for new daemons is what nobody has, was given back, or is past its limit.
func TestLeft(t *testing.T) {
	t.Parallel()
	const now = clock.Millis(1_800_000_000_000)
	layout, err := snowflake.ParseLayout("41+5+5+12", snowflake.DefaultEpoch)
	require.NoError(t, err)
	dir := entries{
		{WorkerID: 0, State: worker.StateActive, Live: true, Timestamp: now, Limit: now.Add(time.Hour)},
		{WorkerID: 1, State: worker.StateActive, Timestamp: now.Add(-time.Hour), Limit: now.Add(time.Hour)},
		{WorkerID: 2, State: worker.StateActive, Timestamp: now.Add(-time.Hour), Limit: now.Add(-time.Second)},
		{WorkerID: 3, State: worker.StateActive, Timestamp: now.Add(-25 * time.Hour), Limit: now.Add(time.Hour)},
		{WorkerID: 4, State: worker.StateReleased, Timestamp: now.Add(-time.Hour), Limit: now},
		{WorkerID: 5, State: worker.StateReleased, Timestamp: now.Add(-time.Hour), Limit: now.Add(16 * time.Second)},
		{WorkerID: 6, State: "damaged"},
		{WorkerID: 40, State: worker.StateActive, Timestamp: now, Limit: now.Add(time.Hour)},
		{WorkerID: 7, State: zkreg.StateJava, Timestamp: now.Add(-100 * 24 * time.Hour)},
	}
	l, err := ListWorkers(t.Context(), dir, nil, layout, func() clock.Millis { return now })
	require.NoError(t, err)
	require.Equal(t, Summary{Entries: 9, Live: 1, Active: 2, Stale: 1, Expired: 1, Released: 2, Java: 1, Damaged: 1, Capacity: 32, Left: 26}, l.Summary)
	require.Equal(t, "9 entries, 1 live, 2 active, 1 stale, 1 expired, 2 released, 1 java, 1 damaged, 26 left of 32", l.Summary.Sentence())
}

// entries is a zkreg.Directory that is only read.
type entries []worker.Entry

func (e entries) Entries(context.Context) ([]worker.Entry, error) { return e, nil }

func (entries) Release(context.Context, int64, bool) (worker.Entry, error) {
	return worker.Entry{}, worker.ErrNoEntry
}

func (entries) Close() error { return nil }

func TestOffsetsForPeople(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "+0s level with", 1300 * time.Microsecond: "+1ms 1ms ahead of", -1700 * time.Microsecond: "-2ms 2ms behind",
		8004 * time.Millisecond: "+8.004s 8.004s ahead of", -61_234 * time.Millisecond: "-1m1.2s 1m1.2s behind",
		400 * time.Microsecond: "+0s level with", -400 * time.Microsecond: "+0s level with",
	} {
		require.Equal(t, want, FormatSigned(d)+" "+FormatOffset(d), d)
	}
}
