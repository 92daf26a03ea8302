package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zookeepertest"
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
	check := func(args ...string) outcome {
		return r.runWith(map[string]string{"LEAFD_DATA_DIR": none}, append([]string{"clock", "check"}, args...)...)
	}

	fine := check("--peers", right).ok(t)
	require.Contains(t, fine, "ADDRESS")
	require.Regexp(t, `(?m)^`+right+` +right +[+-]\S+ +\S+`, fine)
	require.Contains(t, fine, "(median of 1 answers, 1 asked); the threshold is 5s.")
	require.Contains(t, fine, "Verdict: fine.\n")

	refused := check("--peers", wrong)
	require.Equal(t, exitClock, refused.code)
	require.Contains(t, refused.stdout, "Verdict: refused.\n")
	require.Regexp(t, `it is [78]\S*s behind its peers' \(median of 1\), and the threshold is 5s: mend the clock`, refused.stderr)

	// One wrong of two can't shut a healthy machine out by the median; by the mean
	// it is 4 s, and another threshold decides.
	check("--peers", right+","+wrong).ok(t)
	check("--peers", right+","+wrong, "--clock-estimator=mean").ok(t)
	require.Equal(t, exitClock, check("--peers", right+","+wrong, "--clock-estimator=mean", "--clock-threshold=3s").code)
	require.Equal(t, exitOK, check("--peers", wrong, "--clock-threshold=30s").code)

	unknown := check("--peers", silent)
	require.Equal(t, exitOK, unknown.code)
	require.Contains(t, unknown.stderr, "warning: none of the 1 peers told its clock")
	require.Contains(t, unknown.stdout, "Verdict: unknown.\n")

	out := check("--peers", right+","+wrong+","+silent+","+right, "-o", "json", "--clock-threshold=1s")
	require.Equal(t, exitOK, out.code, out.stderr)
	got := fromJSON[jsonClock](t, out.stdout)
	require.Equal(t, clockFine, got.Verdict)
	require.Equal(t, 3, got.Asked, "each once")
	require.Equal(t, 2, got.Answered)
	require.InDelta(t, 1000, got.ThresholdMS, 0)
	require.InDelta(t, 0, *got.OffsetMS, 1000)
	require.Equal(t, []string{right, wrong, silent}, []string{got.Peers[0].Address, got.Peers[1].Address, got.Peers[2].Address})
	require.Equal(t, "wrong", got.Peers[1].Node)
	require.InDelta(t, 8000, *got.Peers[1].OffsetMS, 1000)
	require.Nil(t, got.Peers[1].WorkerID)
	require.Nil(t, got.Peers[2].OffsetMS)
	require.NotEmpty(t, got.Peers[2].Error)
	require.Nil(t, got.Record)
	require.NoDirExists(t, none)
}

func TestClockCheckByTheRegistry(t *testing.T) {
	t.Parallel()
	r := registryTestOn(t, zookeepertest.Start(t)).tree().everyState() // two that answer, right and 8 s ahead, one silent, one at another's address
	none := "--data-dir=" + filepath.Join(t.TempDir(), "none")
	got := fromJSON[jsonClock](t, r.run("clock", "check", none, "-o", "json").ok(t))
	require.Equal(t, 4, got.Asked, "the live ones")
	require.Equal(t, 2, got.Answered)
	require.Equal(t, clockFine, got.Verdict)
	require.EqualValues(t, 1, *got.Peers[1].WorkerID)
	require.Contains(t, got.Peers[3].Error, `node "right" answers there`)

	// The daemon of the data folder is not asked: it has this very clock. What is
	// left is 8 s ahead.
	own := r.recorded(func(rec *worker.Record) { rec.Node = "right" })
	out := r.run("clock", "check", "--data-dir", own, "-o", "json")
	require.Equal(t, exitClock, out.code)
	got = fromJSON[jsonClock](t, out.stdout)
	require.Equal(t, clockRefused, got.Verdict)
	require.Equal(t, 3, got.Asked)
	require.InDelta(t, 8000, *got.OffsetMS, 1000)
	require.Equal(t, "right", got.Record.Node)

	alone := newRegistryTest(t).tree()
	out = alone.run("clock", "check", none)
	require.Equal(t, exitOK, out.code)
	require.Contains(t, out.stderr, "warning: no other daemon is live")
	require.Equal(t, "Verdict: unknown.\n", out.stdout)

	r.server.Kill(t)
	r.run("clock", "check", none, "--timeout=500ms").failed(t, exitFailure, "ZooKeeper at "+r.server.Addr(), "--peers host:port asks daemons without ZooKeeper")
	require.Contains(t, r.run("clock", "check", none, "--timeout=5s", "--peers", got.Peers[0].Address).stdout, "Verdict: refused.", "ZooKeeper is not needed")
}

func TestClockCheckByTheLocalRecord(t *testing.T) {
	t.Parallel()
	r := &registryTest{machine: newMachine(t)}
	silent := "--peers=" + freeAddress(t)
	dir := r.recorded(func(rec *worker.Record) { rec.Ceiling = rec.Timestamp })
	past := r.runWith(nil, "clock", "check", silent, "--data-dir", dir)
	require.Equal(t, exitOK, past.code)
	require.Contains(t, past.stdout, `Worker 7 of node "me" recorded `)
	require.Contains(t, past.stdout, ": both have passed.\n")

	ahead := r.recorded(nil)
	waits := r.runWith(nil, "clock", "check", silent, "--data-dir", ahead)
	require.Equal(t, exitOK, waits.code)
	require.Regexp(t, `a start now would wait (59|1m0)\S*s; while its daemon runs`, waits.stdout)

	r.step(-time.Hour)
	behind := r.runWith(nil, "clock", "check", silent, "--data-dir", dir)
	require.Equal(t, exitClock, behind.code)
	require.Regexp(t, `it is 59m5\S+s behind the 20\S+Z that worker 7 recorded`, behind.stderr)
	require.Contains(t, behind.stdout, "Verdict: refused.\n")
	got := fromJSON[jsonClock](t, r.runWith(nil, "clock", "check", silent, "--data-dir", dir, "-o", "json").stdout)
	require.Equal(t, clockRefused, got.Verdict)
	require.InDelta(t, 3_598_000, got.Record.BehindMS, 60_000)
	require.Equal(t, got.Record.BehindMS, got.Record.WaitMS)

	record := filepath.Join(r.recorded(nil), "worker.json")
	require.NoError(t, os.WriteFile(record, []byte("{}"), 0o600))
	r.runWith(nil, "clock", "check", silent, "--data-dir", filepath.Dir(record)).failed(t, exitFailure, record)
}

// asked is an Asker with the answers made up.
type asked []clock.Sample

func (a asked) Ask(_ context.Context, addresses []string) []clock.Sample { return a[:len(addresses)] }

// TestClockVerdict has offsets to the nanosecond, which no real peer has.
func TestClockVerdict(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		offsets []time.Duration
		behind  time.Duration
		want    string
		says    string
	}{
		{"just inside", []time.Duration{5*time.Second - 1}, 0, clockFine, ""},
		{"at the threshold", []time.Duration{5 * time.Second}, 0, clockRefused, "it is 5s behind its peers'"},
		{"behind us", []time.Duration{-5 * time.Second}, 0, clockRefused, "it is 5s ahead of its peers'"},
		{"nobody", nil, 0, clockUnknown, ""},
		{"nobody, and behind the record", nil, time.Millisecond, clockRefused, "it is 1ms behind"},
		{"both", []time.Duration{time.Hour}, time.Second, clockRefused, "; and it is 1s behind"},
		{"one of three", []time.Duration{0, time.Hour, time.Millisecond}, 0, clockFine, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const now = clock.Millis(1_800_000_000_000)
			check := clockCheck{threshold: 5 * time.Second, estimator: clock.Median}
			var answers asked
			for _, offset := range tc.offsets {
				check.peers = append(check.peers, checkedPeer{address: "10.0.0.1:8080", workerID: worker.NoWorkerID})
				answers = append(answers, clock.Sample{Offset: offset})
			}
			check.record = &worker.Record{Timestamp: now.Add(tc.behind)}
			check.ask(t.Context(), answers, func() clock.Millis { return now })
			require.Equal(t, tc.want, check.word())
			if tc.says == "" {
				require.NoError(t, check.refusal())
				return
			}
			require.ErrorIs(t, check.refusal(), worker.ErrClockRefused)
			require.ErrorContains(t, check.refusal(), tc.says)
			require.NotContains(t, strings.Join(check.lines(), "\n"), "fine")
		})
	}
}
