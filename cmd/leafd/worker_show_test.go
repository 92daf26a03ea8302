package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/clitest"
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
	require.Equal(t, "never", field(t, live, "reclaim after"))
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \(.* ago\)$`, field(t, live, "last report"))
	require.Contains(t, field(t, r.run("worker", "show", "2").OK(t), "clock"), "no answer: ")

	resting := r.run("worker", "show", "4").OK(t)
	require.Equal(t, "resting", field(t, resting, "node"))
	require.Regexp(t, `^from \d{4}-.*Z on \(in 22h5\dm\)$`, field(t, resting, "release"))
	require.NotContains(t, resting, "clock")

	require.Equal(t, "possible: leafd worker release 5", field(t, r.run("worker", "show", "old").OK(t), "release"))
	require.Equal(t, "done", field(t, r.run("worker", "show", "free").OK(t), "release"))
	broken := r.run("worker", "show", "8").OK(t)
	require.Equal(t, "never", field(t, broken, "ceiling"))
	require.Equal(t, "-", field(t, broken, "owner"))
	require.Equal(t, "1h without a report", field(t, r.run("worker", "show", "lent").OK(t), "reclaim after"))

	for name, want := range map[string]struct {
		id         int64
		releasable bool
	}{"right": {0, false}, "resting": {4, true}, "old": {5, true}, "free": {6, false}} {
		got := clitest.FromJSON[cli.DetailJSON](t, r.run("worker", "show", name, "-o", "json").OK(t))
		require.Equal(t, want.id, got.WorkerID)
		require.Equal(t, want.releasable, got.ReleasableFrom != nil, name)
		if want.releasable {
			require.Equal(t, got.Timestamp.Add(24*time.Hour), *got.ReleasableFrom)
		}
	}

	r.run("worker", "show", "restin").Failed(t, cli.ExitFailure, `no worker ID and no node is "restin" (did you mean resting?)`, "leafd worker list")
	r.run("worker", "show", "77").Failed(t, cli.ExitFailure, `"77"; there are 11, of the worker IDs 0 to 10`)
}
