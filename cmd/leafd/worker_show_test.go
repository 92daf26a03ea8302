package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

func TestWorkerShow(t *testing.T) {
	t.Parallel()
	r := everyState(t)

	live := r.run("worker", "show", "wrong").ok(t)
	require.Equal(t, "1", field(t, live, "worker ID"))
	require.Equal(t, "wrong", field(t, live, "node"))
	require.Contains(t, field(t, live, "state"), "live: ")
	require.Regexp(t, `^[78].*s ahead of this machine's, round trip `, field(t, live, "clock"))
	require.Equal(t, "not while it is live", field(t, live, "release"))
	require.Equal(t, "never", field(t, live, "reclaim after"))
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \(.* ago\)$`, field(t, live, "last report"))
	require.Contains(t, field(t, r.run("worker", "show", "2").ok(t), "clock"), "no answer: ")

	resting := r.run("worker", "show", "4").ok(t)
	require.Equal(t, "resting", field(t, resting, "node"))
	require.Regexp(t, `^from \d{4}-.*Z on \(in 22h5\dm\)$`, field(t, resting, "release"))
	require.NotContains(t, resting, "clock")

	require.Equal(t, "possible: leafd worker release 5", field(t, r.run("worker", "show", "old").ok(t), "release"))
	require.Equal(t, "done", field(t, r.run("worker", "show", "free").ok(t), "release"))
	broken := r.run("worker", "show", "8").ok(t)
	require.Equal(t, "never", field(t, broken, "ceiling"))
	require.Equal(t, "-", field(t, broken, "owner"))
	require.Equal(t, "1h without a report", field(t, r.run("worker", "show", "lent").ok(t), "reclaim after"))

	for name, want := range map[string]struct {
		id         int64
		releasable bool
	}{"right": {0, false}, "resting": {4, true}, "old": {5, true}, "free": {6, false}} {
		got := fromJSON[jsonDetail](t, r.run("worker", "show", name, "-o", "json").ok(t))
		require.Equal(t, want.id, got.WorkerID)
		require.Equal(t, want.releasable, got.ReleasableFrom != nil, name)
		if want.releasable {
			require.Equal(t, got.Timestamp.Add(24*time.Hour), *got.ReleasableFrom)
		}
	}

	r.run("worker", "show", "restin").failed(t, exitFailure, `no worker ID and no node is "restin" (did you mean resting?)`, "leafd worker list")
	r.run("worker", "show", "77").failed(t, exitFailure, `"77"; there are 11, of the worker IDs 0 to 10`)
}

func TestFindEntry(t *testing.T) {
	t.Parallel()
	entries := []worker.Entry{
		{WorkerID: 1, Node: "a", State: worker.StateClaiming},
		{WorkerID: 1, Node: "b", State: worker.StateActive},
		{WorkerID: 2, Node: "c", State: worker.StateActive},
		{WorkerID: 3, Node: "c", State: worker.StateActive},
		{WorkerID: 4, Node: "4", State: worker.StateActive},
		{WorkerID: 5, Node: "6", State: worker.StateActive},
		{WorkerID: 6, Node: "7", State: worker.StateActive},
	}
	for _, tc := range []struct {
		name string
		want int // index; -1 for an error
		says string
	}{
		{"1", 1, ""}, // not the claim that was never finished
		{"a", 0, ""},
		{"b", 1, ""},
		{"c", -1, "several entries, of the worker IDs 2, 3"},
		{"3", 3, ""},
		{"4", 4, ""}, // both name the same entry
		{"6", -1, `"6" is both a worker ID, which node "7" has, and a node, which has worker ID 5`},
		{"7", 6, ""}, // a node alone
		{"5", 5, ""},
		{"-1", -1, "there are 7"},
		{"", -1, `""`},
		{"99999999999999999999", -1, "no worker ID and no node"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := findEntry(entries, tc.name)
			if tc.want < 0 {
				require.ErrorContains(t, err, tc.says)
				return
			}
			require.NoError(t, err)
			require.Equal(t, entries[tc.want], got)
		})
	}
}

func TestShownState(t *testing.T) {
	t.Parallel()
	const now = clock.Millis(1_800_000_000_000)
	for _, tc := range []struct {
		name  string
		entry worker.Entry
		want  string
	}{
		{"live", worker.Entry{State: worker.StateActive, Live: true, Timestamp: now}, shownLive},
		{"live, though it doesn't report", worker.Entry{State: worker.StateActive, Live: true, Timestamp: 1}, shownLive},
		{"active", worker.Entry{State: worker.StateActive, Timestamp: now.Add(-24*time.Hour + time.Millisecond)}, shownActive},
		{"active, its clock ahead", worker.Entry{State: worker.StateActive, Timestamp: now.Add(time.Hour)}, shownActive},
		{"stale", worker.Entry{State: worker.StateActive, Timestamp: now.Add(-24 * time.Hour)}, shownStale},
		{"released while it lives", worker.Entry{State: worker.StateReleased, Live: true}, shownReleased},
		{"claiming", worker.Entry{State: worker.StateClaiming, Live: true}, shownClaiming},
		{"damaged", worker.Entry{State: "damaged", Live: true}, shownDamaged},
		{"of a newer leafd", worker.Entry{State: "retired"}, shownDamaged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, shownState(tc.entry, now))
			require.Contains(t, shownStates(), tc.want)
		})
	}
}

func TestTimesForPeople(t *testing.T) {
	t.Parallel()
	const now = clock.Millis(1_800_000_000_000)
	for _, tc := range []struct {
		at   clock.Millis
		want string
	}{
		{0, "never"},
		{now, "0s ago"},
		{now.Add(-1400 * time.Millisecond), "1.4s ago"},
		{now.Add(-42 * time.Second), "42s ago"},
		{now.Add(-65 * time.Second), "1m05s ago"},
		{now.Add(-3*time.Hour - 7*time.Minute), "3h07m ago"},
		{now.Add(-47*time.Hour - 59*time.Minute), "47h59m ago"},
		{now.Add(-73 * time.Hour), "3d01h ago"},
		{now.Add(4 * time.Second), "in 4s"},
	} {
		require.Equal(t, tc.want, relative(tc.at, now))
	}
	for d, want := range map[time.Duration]string{
		0: "+0s level with", 1300 * time.Microsecond: "+1ms 1ms ahead of", -1700 * time.Microsecond: "-2ms 2ms behind",
		8004 * time.Millisecond: "+8.004s 8.004s ahead of", -61_234 * time.Millisecond: "-1m1.2s 1m1.2s behind",
		400 * time.Microsecond: "+0s level with", -400 * time.Microsecond: "+0s level with",
	} {
		require.Equal(t, want, signed(d)+" "+apart(d), d)
	}
}
