package inspect

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/peerclock"
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

// What is left for new daemons is what no holder has, was given back, or is past its limit.
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
	l, err := ListWorkers(t.Context(), dir, nil, layout, 0, func() clock.Millis { return now })
	require.NoError(t, err)
	require.Equal(t, Summary{Entries: 9, Live: 1, NotLive: 4, Released: 2, Foreign: 1, Damaged: 1, Capacity: 32, Free: 26}, l.Summary)
	require.Equal(t, "9 entries, 1 live, 4 not live, 2 released, 1 foreign, 1 damaged, 26 free of 32", l.Summary.Sentence())

	floor := now.Add(7 * 24 * time.Hour)
	l, err = ListWorkers(t.Context(), dir, nil, layout, floor, func() clock.Millis { return now })
	require.NoError(t, err)
	require.Zero(t, l.Summary.Free)
	require.Equal(t, floor, l.Summary.ClosedUntil)
	require.Equal(t, floor, *l.Workers[2].FreeFrom, "its own piece is over, and the cluster is closed")
	require.Contains(t, l.Summary.Sentence(), ", 0 free until 2027-01-22 08:00:00: ")
	l, err = ListWorkers(t.Context(), dir, nil, layout, now, func() clock.Millis { return now })
	require.NoError(t, err)
	require.EqualValues(t, 26, l.Summary.Free, "the floor has passed")
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

// What /readyz of a daemon says, and what answers there that is no leafd.
func TestReadiness(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][3]string{
		`{"status":"ready"}`: {"ready", "", ""},
		`{"status":"degraded","conditions":[{"code":"segment_store","message":"the database gives no range"},{"code":"peers_silent","message":"no peer"}]}`: {
			"degraded", "segment_store", "the database gives no range",
		},
		`{"status":"not_ready","code":"draining","message":"leafd is stopping","conditions":[{"code":"lease_over","message":"x"}]}`: {"not_ready", "draining", "leafd is stopping"},
		`{"status":"fine"}`: {"no_answer", "", "what answers there is no leafd"},
		`[]`:                {"no_answer", "", "what answers there is no leafd"},
	} {
		status, code, message := readiness(peerclock.Answer{Body: []byte(body)})
		require.Equal(t, want, [3]string{status, code, message}, body)
	}
	status, _, message := readiness(peerclock.Answer{Err: context.DeadlineExceeded})
	require.Equal(t, []string{"no_answer", "context deadline exceeded"}, []string{status, message})
}
