package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
)

func TestClockCheckByPeers(t *testing.T) {
	t.Parallel()
	r := &registryTest{machine: newMachine(t)}
	ahead := newMachine(t)
	ahead.step(8 * time.Second)
	right := r.start("--node", "right").tells().addr
	wrong := ahead.start("--node", "wrong").tells().addr
	silent := freeAddress(t)
	none := filepath.Join(t.TempDir(), "none")
	check := func(args ...string) clitest.Outcome {
		return r.runWith(map[string]string{"LEAFD_DATA_DIR": none}, append([]string{"clock", "check"}, args...)...)
	}

	fine := check("--peers", right).OK(t)
	require.Contains(t, fine, "ADDRESS")
	require.Regexp(t, `(?m)^`+right+` +right +-?\d\S+ +\S+`, fine)
	require.Regexp(t, `(?m)^This clock is \S+ \w+( of)? the peers' clocks, 1 of 1 peers answered \(`+right+` [+-]\d+ms\); up to 5s is allowed\.$`, fine)
	require.Contains(t, fine, "Verdict: fine.\n")

	refused := check("--peers", wrong)
	require.Equal(t, cli.ExitClock, refused.Code)
	require.Contains(t, refused.Stdout, "Verdict: refused.\n")
	require.Regexp(t, `it is [78]\S*s behind the peers' clocks, 1 of 1 peers answered \(\S+ \+[78]\d+ms\); up to 5s is allowed: fix the clock`, refused.Stderr)

	// One wrong of two can't shut a healthy machine out by the median; by the mean
	// it is 4 s, and another threshold decides.
	check("--peers", right+","+wrong).OK(t)
	require.Equal(t, cli.ExitClock, check("--peers", right+","+wrong, "--clock-estimator=mean", "--clock-threshold=3s").Code)
	require.Equal(t, cli.ExitOK, check("--peers", wrong, "--clock-threshold=30s").Code)

	unknown := check("--peers", silent)
	require.Equal(t, cli.ExitOK, unknown.Code)
	require.Contains(t, unknown.Stderr, "warning: none of the 1 peers told its clock, and nothing was compared: ")
	require.Equal(t, 1, strings.Count(unknown.Stdout, "Verdict: unknown.\n"))

	out := check("--peers", right+","+wrong+","+silent+","+right, "-o", "json", "--clock-threshold=1s")
	require.Equal(t, cli.ExitOK, out.Code, out.Stderr)
	got := clitest.FromJSON[inspect.ClockCheck](t, out.Stdout)
	require.Equal(t, []any{inspect.Fine, 3, 2}, []any{got.Verdict, got.Asked, got.Answered}, "each once")
	require.InDelta(t, 0, float64(*got.Offset), float64(time.Second))
	require.Equal(t, []string{right, wrong, silent}, []string{got.Peers[0].Address, got.Peers[1].Address, got.Peers[2].Address})
	require.InDelta(t, float64(8*time.Second), float64(*got.Peers[1].Offset), float64(time.Second))
	require.NotEmpty(t, got.Peers[2].Error)
	require.NoDirExists(t, none)
}

func TestClockCheckByTheRegistry(t *testing.T) {
	t.Parallel()
	r := registryTestOn(t, zookeepertest.Start(t)).tree().everyState() // two that answer, right and 8 s ahead, one silent, one at another's address
	none := "--data-dir=" + filepath.Join(t.TempDir(), "none")
	got := clitest.FromJSON[inspect.ClockCheck](t, r.run("clock", "check", none, "-o", "json").OK(t))
	require.Equal(t, 4, got.Asked, "the live ones")
	require.Equal(t, 2, got.Answered)
	require.Equal(t, inspect.Fine, got.Verdict)
	require.EqualValues(t, 1, *got.Peers[1].WorkerID)
	require.Contains(t, got.Peers[3].Error, `node "right" answers there`)

	// The daemon of the data directory is not asked: it has this very clock. What is
	// left is 8 s ahead: nothing tells which of the two is wrong, and it would resume.
	own := r.recorded(func(rec *worker.Record) {
		rec.Node, rec.Owner, rec.Instance = "right", "owner of "+got.Peers[0].Address, "instance of "+got.Peers[0].Address
	})
	out := r.run("clock", "check", "--data-dir", own, "-o", "json")
	require.Equal(t, cli.ExitOK, out.Code)
	got = clitest.FromJSON[inspect.ClockCheck](t, out.Stdout)
	require.Equal(t, inspect.Undecided, got.Verdict)
	require.Equal(t, 3, got.Asked)
	require.InDelta(t, float64(8*time.Second), float64(*got.Offset), float64(time.Second))

	alone := newRegistryTest(t).tree()
	out = alone.run("clock", "check", none)
	require.Equal(t, cli.ExitOK, out.Code)
	require.Contains(t, out.Stderr, "warning: no other daemon is live")
	require.Equal(t, "Verdict: unknown.\n", out.Stdout)

	r.server.Kill(t)
	r.run("clock", "check", none, "--timeout=500ms").Failed(t, cli.ExitFailure, "ZooKeeper at "+r.server.Addr(), "--peers host:port asks daemons without ZooKeeper")
	require.Contains(t, r.run("clock", "check", none, "--timeout=5s", "--peers", got.Peers[0].Address).Stdout, "Verdict: refused.", "ZooKeeper is not needed")
}

func TestClockCheckByTheLocalRecord(t *testing.T) {
	t.Parallel()
	r := &registryTest{machine: newMachine(t)}
	silent := "--peers=" + freeAddress(t)
	dir := r.recorded(func(rec *worker.Record) { rec.Ceiling = rec.Timestamp })
	past := r.runWith(nil, "clock", "check", silent, "--data-dir", dir)
	require.Equal(t, cli.ExitOK, past.Code)

	r.step(-time.Hour)
	behind := r.runWith(nil, "clock", "check", silent, "--data-dir", dir)
	require.Equal(t, cli.ExitClock, behind.Code)
	require.Regexp(t, `it is 59m5\S+s behind the 20\S+Z that worker 7 recorded`, behind.Stderr)
	require.Contains(t, behind.Stdout, "Verdict: refused.\n")
	got := clitest.FromJSON[inspect.ClockCheck](t, r.runWith(nil, "clock", "check", silent, "--data-dir", dir, "-o", "json").Stdout)
	require.Equal(t, inspect.Refused, got.Verdict)

	record := filepath.Join(r.recorded(nil), "worker.json")
	require.NoError(t, os.WriteFile(record, []byte("{}"), 0o600))
	r.runWith(nil, "clock", "check", silent, "--data-dir", filepath.Dir(record)).Failed(t, cli.ExitFailure, record)
}
