package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
)

func TestWorkerShow(t *testing.T) {
	t.Parallel()
	r := everyState(t)

	live := r.run("worker", "show", "wrong").OK(t)
	require.Equal(t, "1", field(t, live, "worker ID"))
	require.Equal(t, "wrong", field(t, live, "node"))
	require.Contains(t, field(t, live, "state"), "live: ")
	require.Regexp(t, `^[78].*s ahead of this machine's, round trip `, field(t, live, "clock"))
	require.Equal(t, "not while it is live", field(t, live, "release"))
	require.Equal(t, "never", field(t, live, "limit"))
	require.Equal(t, "not while it is live", field(t, live, "free"))
	require.Equal(t, "-", field(t, live, "instance"))
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \(.* ago\)$`, field(t, live, "last report"))
	require.Contains(t, field(t, r.run("worker", "show", "2").OK(t), "clock"), "no answer: ")

	resting := r.run("worker", "show", "4").OK(t)
	require.Equal(t, "resting", field(t, resting, "node"))
	require.Regexp(t, `^from \d{4}-.*Z on \(in 22h5\dm\)$`, field(t, resting, "release"))
	require.Equal(t, "never by itself: it has no limit", field(t, resting, "free"))
	require.NotContains(t, resting, "clock")

	require.Equal(t, "possible: leafd worker release 5", field(t, r.run("worker", "show", "old").OK(t), "release"))
	require.Equal(t, "done", field(t, r.run("worker", "show", "free").OK(t), "release"))
	broken := r.run("worker", "show", "8").OK(t)
	require.Equal(t, "never", field(t, broken, "ceiling"))
	require.Equal(t, "-", field(t, broken, "owner"))
	require.Contains(t, field(t, broken, "free"), "never: ")
	require.Contains(t, field(t, broken, "release"), "not while it is damaged")
	over := r.run("worker", "show", "over").OK(t)
	require.Regexp(t, `^since \d{4}-.*Z \(1h00m ago\)$`, field(t, over, "free"))
	require.Equal(t, "possible: leafd worker release 10", field(t, over, "release"))
	piece := r.run("worker", "show", "piece").OK(t)
	require.Equal(t, "instance of 10.0.0.11:8080", field(t, piece, "instance"))
	require.Regexp(t, `^from \d{4}-.*Z \(in .*\) on, unless it reports before$`, field(t, piece, "free"))
	require.Regexp(t, `^from \d{4}-.*Z on \(in 4d0\dh\)$`, field(t, piece, "release"))
	require.Contains(t, field(t, piece, "floor"), "3h00m ago")

	for name, want := range map[string]struct {
		id         int64
		releasable bool
	}{"right": {0, false}, "resting": {4, true}, "old": {5, true}, "free": {6, false}, "piece": {11, true}} {
		got := clitest.FromJSON[cli.DetailJSON](t, r.run("worker", "show", name, "-o", "json").OK(t))
		require.Equal(t, want.id, got.WorkerID)
		require.Equal(t, want.releasable, got.ReleasableFrom != nil, name)
		if want.releasable {
			require.Equal(t, max(got.Timestamp.Add(24*time.Hour), got.Limit), *got.ReleasableFrom)
		}
	}

	r.run("worker", "show", "restin").Failed(t, cli.ExitFailure, `no worker ID and no node is "restin" (did you mean resting?)`, "leafd worker list")
	r.run("worker", "show", "77").Failed(t, cli.ExitFailure, `"77"; there are 12, of the worker IDs 0 to 11`)
}
