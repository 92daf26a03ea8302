package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/test/clitest"
)

func TestWorkerShow(t *testing.T) {
	t.Parallel()
	r := everyState(t)

	live := r.run("worker", "show", "1").OK(t)
	require.Equal(t, "1", field(t, live, "worker ID"))
	require.Equal(t, "wrong", field(t, live, "node"))
	require.Equal(t, "live", field(t, live, "state"))
	require.Regexp(t, `^[78].*s ahead of this machine's, round trip `, field(t, live, "clock"))
	require.Contains(t, field(t, live, "limit"), "(in 6d2")
	require.Equal(t, "-", field(t, live, "free"))
	require.Equal(t, "instance of "+field(t, live, "address"), field(t, live, "instance"))
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \(.* ago\)$`, field(t, live, "last report"))
	require.Contains(t, field(t, r.run("worker", "show", "2").OK(t), "clock"), "no answer: ")

	resting := r.run("worker", "show", "4").OK(t)
	require.Equal(t, "resting", field(t, resting, "node"))
	require.Regexp(t, `^\d{4}-.*Z \(in 6d2\dh\)$`, field(t, resting, "free"))
	require.NotContains(t, resting, "clock")

	require.Equal(t, "never by itself", field(t, r.run("worker", "show", "9").OK(t), "free"))
	require.Equal(t, "free", field(t, r.run("worker", "show", "6").OK(t), "free"))
	broken := r.run("worker", "show", "8").OK(t)
	require.Equal(t, "never", field(t, broken, "ceiling"))
	require.Equal(t, "-", field(t, broken, "owner"))
	require.Equal(t, "-", field(t, broken, "free"))
	require.Equal(t, "free", field(t, r.run("worker", "show", "10").OK(t), "free"))
	piece := r.run("worker", "show", "11").OK(t)
	require.Equal(t, "instance of 10.0.0.11:8080", field(t, piece, "instance"))
	require.Regexp(t, `^\d{4}-.*Z \(in .*\)$`, field(t, piece, "free"))
	require.Contains(t, field(t, piece, "floor"), "3h00m ago")

	for _, id := range []int64{0, 4, 6, 11} {
		require.Equal(t, id, clitest.FromJSON[server.WorkerInfo](t, r.run("worker", "show", cli.Decimal(id), "-o", "json").OK(t)).ID)
	}

	r.run("worker", "show", "resting").Failed(t, cli.ExitUsage, `worker ID is "resting"`, "leafd worker list")
	r.run("worker", "show", "77").Failed(t, cli.ExitFailure, "worker ID 77 has no entry")
}
