package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/test/clitest"
)

func TestWorkerShow(t *testing.T) {
	t.Parallel()
	r := everyState(t)

	live := r.run("worker", "show", "1").OK(t)
	require.Equal(t, "1", field(t, live, "worker_id"))
	require.Equal(t, "wrong", field(t, live, "node"))
	require.Equal(t, "live", field(t, live, "state"))
	require.Regexp(t, `^[78]\.?\d*s$`, field(t, live, "offset"))
	require.NotEmpty(t, field(t, live, "rtt"))
	require.Contains(t, field(t, live, "limit"), "(in 6d2")
	require.NotContains(t, live, "free_from")
	require.Equal(t, "instance of "+field(t, live, "address"), field(t, live, "instance"))
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \(.* ago\)$`, field(t, live, "timestamp"))
	require.Contains(t, field(t, r.run("worker", "show", "2").OK(t), "offset_error"), "no answer")

	resting := r.run("worker", "show", "4").OK(t)
	require.Equal(t, "resting", field(t, resting, "node"))
	require.Regexp(t, `^\d{4}-.*Z \(in 6d2\dh\)$`, field(t, resting, "free_from"))
	require.NotContains(t, resting, "offset")

	for _, id := range []string{"8", "9"} { // damaged, and a Java Leaf's
		never := r.run("worker", "show", id).OK(t)
		for _, name := range []string{"ceiling", "owner", "free_from"} {
			require.NotContains(t, never, name)
		}
	}
	require.Contains(t, field(t, r.run("worker", "show", "6").OK(t), "free_from"), " ago)")
	require.Contains(t, field(t, r.run("worker", "show", "10").OK(t), "free_from"), " ago)")
	piece := r.run("worker", "show", "11").OK(t)
	require.Equal(t, "instance of 10.0.0.11:8080", field(t, piece, "instance"))
	require.Regexp(t, `^\d{4}-.*Z \(in .*\)$`, field(t, piece, "free_from"))
	require.Contains(t, field(t, piece, "floor"), "3h00m ago")

	for _, id := range []int64{0, 4, 6, 11} {
		require.Equal(t, id, clitest.FromJSON[views.WorkerInfo](t, r.run("worker", "show", cli.Decimal(id), "-o", "json").OK(t)).ID)
	}

	r.run("worker", "show", "resting").Failed(t, cli.ExitUsage, `worker ID is "resting"`, "leafd worker list")
	r.run("worker", "show", "77").Failed(t, cli.ExitFailure, "worker ID 77 has no entry")
}
