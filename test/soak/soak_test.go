package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/unique"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(proctest.RemoveLeafdAfter(m)) }

// TestSoak makes a whole soak of five seconds. What it finds of latency and of
// memory is the machine's affair; that it finds it is ours. On a machine that is
// busy enough the load sends so little that no tag needs a range while the database is
// away, or the database is back only after the tags were empty, or the load over.
func TestSoak(t *testing.T) {
	leafd, dir := proctest.Leafd(t), t.TempDir()
	bare := filepath.Join(dir, "barehttp")
	built, err := exec.Command("go", "-C", "../bench", "build", "-o", bare, "./barehttp").CombinedOutput()
	require.NoError(t, err, "%s", built)
	t.Setenv("TMPDIR", shortTemp(t))
	samples := filepath.Join(dir, "samples.tsv")
	args := []string{
		"-leafd", leafd, "-bare", bare, "-sql", "../../deploy/leaf_alloc.sql", "-duration", "5s", "-rate", "half", "-clients", "32",
		"-outage", "300ms", "-p999", "1h", "-dir", dir, "-samples", samples, "-turns", "2",
	}
	o, err := parse(args, os.Stderr)
	require.NoError(t, err)
	var progress lockedBuffer
	f, err := soak(t.Context(), o, &progress)
	require.NoError(t, err, "%s", progress.String())
	var out bytes.Buffer
	require.NoError(t, f.print(&out, o))
	t.Logf("%s%s", progress.String(), out.String())

	require.Positive(t, f.capacity)
	require.InDelta(t, f.capacity/2, f.rate, 1e-6)
	require.Len(t, f.turns.bare, 2)
	require.Len(t, f.turns.leafd, 2)
	require.Positive(t, min(f.turns.bare[0], f.turns.bare[1], f.turns.leafd[0], f.turns.leafd[1]))
	require.Contains(t, out.String(), "of a server that only answers")
	require.Contains(t, out.String(), f.hostTook)
	require.Contains(t, f.hostTook, "the CPUs' time")
	require.Len(t, f.results, 5)
	for i, r := range f.results {
		require.Positive(t, r.Answered, f.streams[i].name)
	}
	require.Len(t, f.sets, 2+quietTags)
	for _, set := range f.sets {
		require.Positive(t, set.IDs, "IDs of %q", set.name)
	}
	require.Greater(t, f.upAt-f.downAt, o.outage)
	require.NotEmpty(t, f.samples)
	last := f.samples[len(f.samples)-1]
	require.Greater(t, last.fetches, float64(quietTags), "ranges were fetched")
	for _, x := range f.failures {
		require.Contains(t, []string{"segment_store", "segment_unavailable"}, x.Code, "only the outage explains a failure: %s", out.String())
	}
	if felt := last.failed > f.atDown.failed; felt && f.upAt < o.duration*3/5 && f.errors == 0 {
		require.True(t, verdictOf(t, f, o, "ranges fetched through the restart").kept, out.String())
	}
	for _, name := range []string{"no ID twice", "IDs grow, and are those asked for", "ran its time, without a panic", "p99.9 from the intended start"} {
		require.True(t, verdictOf(t, f, o, name).kept, "%s: %s", name, out.String())
	}
	require.Contains(t, out.String(), "snowflake, batches of 100")
	text, err := os.ReadFile(samples)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Len(t, lines, 1+len(f.samples))
	for _, l := range lines {
		require.Len(t, strings.Split(l, "\t"), 16)
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left behind")
}

// shortTemp is a directory with a short path: a socket's may have 107 bytes.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestDaemonThatDoesNotStart leaves no database behind, and says what it logged.
func TestDaemonThatDoesNotStart(t *testing.T) {
	if testing.Short() {
		t.Skip("runs MariaDB")
	}
	no := filepath.Join(t.TempDir(), "no")
	t.Setenv("TMPDIR", shortTemp(t))
	require.NoError(t, os.WriteFile(no, []byte("#!/bin/sh\necho out of luck\nexit 7\n"), 0o700))
	var stdout, stderr bytes.Buffer
	require.Equal(t, 1, run([]string{"-leafd", no, "-sql", "../../deploy/leaf_alloc.sql"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "exit status 7")
	require.Contains(t, stderr.String(), "out of luck")
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func verdictOf(t *testing.T, f *figures, o options, name string) verdict {
	t.Helper()
	for _, v := range f.verdicts(o) {
		if v.name == name {
			return v
		}
	}
	require.Fail(t, "no verdict "+name)
	return verdict{}
}

// good is what a soak shows in which nothing is missed; no real one is run.
func good(o options) *figures {
	f := &figures{
		streams: mix(50_000, o.outage), downAt: 20 * time.Minute, upAt: 20*time.Minute + o.outage, atDown: sample{fetches: 100},
		sets: []setVerdict{{snowflakes, unique.Report{IDs: 10}}, {hotTag, unique.Report{IDs: 5}}},
	}
	for range f.streams {
		f.results = append(f.results, &loadtest.Result{Window: o.duration, Due: 1_000_000})
	}
	for at := o.every(); at <= o.duration; at += o.every() {
		f.samples = append(f.samples, sample{at: at, rss: 40e6, heap: 8e6, goroutines: 99, fds: 80, fetches: 100 + at.Minutes(), failed: 3})
	}
	return f
}

// TestVerdicts: each fault misses its own verdict, and no other.
func TestVerdicts(t *testing.T) {
	o, err := parse(nil, os.Stderr)
	require.NoError(t, err)
	// The latency comes from a run's own histogram: the real soak has one.
	const latency = "p99.9 from the intended start"
	for name, tc := range map[string]struct {
		fault  func(f *figures)
		missed string
	}{
		"none":                    {func(*figures) {}, ""},
		"unsent":                  {func(f *figures) { f.results[2].NotSent = 501 }, "rate kept"},
		"a refusal":               {func(f *figures) { f.errors = 1 }, "no request failed"},
		"an ID twice":             {func(f *figures) { f.sets[1].Surplus = 1 }, "no ID twice"},
		"no ID compared":          {func(f *figures) { f.sets = nil }, "no ID twice"},
		"fell":                    {func(f *figures) { f.results[0].NotGrowing = 1 }, "IDs grow, and are those asked for"},
		"wrong answer":            {func(f *figures) { f.results[4].Wrong = 1 }, "IDs grow, and are those asked for"},
		"memory grows":            {func(f *figures) { grow(f, func(s *sample, n float64) { s.rss += n * 1e5 }) }, "resident memory flat"},
		"heap grows":              {func(f *figures) { grow(f, func(s *sample, n float64) { s.heap += n * 1e5 }) }, "heap flat"},
		"a goroutine a minute":    {func(f *figures) { grow(f, func(s *sample, _ float64) { s.goroutines += s.at.Minutes() }) }, "goroutines flat"},
		"a descriptor a minute":   {func(f *figures) { grow(f, func(s *sample, _ float64) { s.fds += s.at.Minutes() }) }, "descriptors flat"},
		"no restart":              {func(f *figures) { f.upAt = 0 }, "ranges fetched through the restart"},
		"no range since":          {func(f *figures) { grow(f, func(s *sample, _ float64) { s.fetches, s.failed = 120, 20 }) }, "ranges fetched through the restart"},
		"an outage not felt":      {func(f *figures) { grow(f, func(s *sample, _ float64) { s.failed = 0 }) }, "ranges fetched through the restart"},
		"a tag that goes on fail": {func(f *figures) { f.samples[len(f.samples)-1].failing = 1 }, "ranges fetched through the restart"},
		"a panic":                 {func(f *figures) { f.samples[len(f.samples)-1].panics = 1 }, "ran its time, without a panic"},
		"ended early":             {func(f *figures) { f.results[3].Window-- }, "ran its time, without a panic"},
	} {
		t.Run(name, func(t *testing.T) {
			f := good(o)
			tc.fault(f)
			var missed []string
			for _, v := range f.verdicts(o) {
				if !v.kept && v.name != latency {
					missed = append(missed, v.name)
				}
			}
			if tc.missed == "" {
				require.Empty(t, missed)
				return
			}
			require.Equal(t, []string{tc.missed}, missed)
		})
	}
	t.Run("no request", func(t *testing.T) {
		require.False(t, (&figures{results: []*loadtest.Result{}}).latency(o).kept)
	})
	t.Run("too few samples", func(t *testing.T) {
		f := good(o)
		f.samples = f.samples[:len(f.samples)/2+10]
		require.Equal(t, 5, f.missed(o), "four that need samples, and the latency of no request")
	})
}

func grow(f *figures, by func(s *sample, n float64)) {
	for i := range f.samples {
		by(&f.samples[i], float64(i))
	}
}

// TestTurns: leafd may be 1.2 times as slow, or take what is allowed where the other keeps that.
func TestTurns(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name        string
		leafd, bare []time.Duration
		kept        bool
	}{
		{"both quick", []time.Duration{ms}, []time.Duration{ms / 4}, true},
		{"the other keeps it", []time.Duration{11 * ms / 10}, []time.Duration{ms}, false},
		{"the machine is slow", []time.Duration{12 * ms}, []time.Duration{10 * ms}, true},
		{"leafd is slow", []time.Duration{13 * ms}, []time.Duration{10 * ms}, false},
		{"one bad turn", []time.Duration{2 * ms, 90 * ms, 2 * ms}, []time.Duration{2 * ms, 2 * ms, 3 * ms}, true},
		{"one good turn", []time.Duration{9 * ms, 2 * ms, 9 * ms}, []time.Duration{2 * ms, 2 * ms, 9 * ms}, false},
		{"no answers", []time.Duration{0}, []time.Duration{ms}, false},
		{"none", nil, nil, false},
	} {
		kept, says := turns{leafd: tc.leafd, bare: tc.bare}.judge(ms)
		require.Equal(t, tc.kept, kept, "%s: %s", tc.name, says)
	}
}

func TestMix(t *testing.T) {
	for _, rate := range []float64{100, 20_000, 50_000, 1_000_000} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			const outage = 20 * time.Second
			share, hot := 0.0, 0.0
			for _, s := range mix(rate, outage) {
				require.Positive(t, s.share, s.name)
				require.Positive(t, s.clients(minClients))
				share += s.share
				if s.keys[0] == hotTag {
					hot += s.share * rate * float64(s.batch)
				}
			}
			require.InDelta(t, 1, share, 1e-9)
			require.LessOrEqual(t, hot*(outage+comeback).Seconds(), 0.9*maxStep+1)
		})
	}
}

// TestPlan: the outage is over before the half that is judged, with any seed.
func TestPlan(t *testing.T) {
	kills := 0
	for seed := range uint64(50) {
		o := options{duration: time.Minute, outage: 6 * time.Second, seed: seed}
		p := newPlan(o)
		require.GreaterOrEqual(t, p.from, o.duration/3)
		require.LessOrEqual(t, p.from+o.outage, o.duration/2)
		hour := options{duration: time.Hour, outage: 20 * time.Second, seed: seed}
		require.LessOrEqual(t, newPlan(hour).from+hour.longestOutage(), hour.duration/2, "nor when it is felt late")
		require.Equal(t, p, newPlan(o), "a seed is a plan")
		if p.kill {
			kills++
		}
	}
	require.Positive(t, kills)
	require.Less(t, kills, 50)
}

// TestAbsence: the database is away until the daemon has felt it, and no longer than it may.
func TestAbsence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		a := absence{least: 20 * time.Second, most: time.Minute, felt: func() bool { return time.Since(begun) > 25*time.Second }}
		a.wait(t.Context())
		require.Equal(t, 26*time.Second, time.Since(begun))
		begun = time.Now()
		a.felt = func() bool { return true }
		a.wait(t.Context())
		require.Equal(t, 20*time.Second, time.Since(begun), "no shorter")
		begun = time.Now()
		a.felt = func() bool { return false }
		a.wait(t.Context())
		require.Equal(t, time.Minute, time.Since(begun), "never felt")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		a.wait(ctx)
		require.Equal(t, time.Second, time.Since(begun), "the soak is ended")
	})
}

func TestOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"rate":     {[]string{"-rate", "fast"}, `-rate is "fast"`},
		"no rate":  {[]string{"-rate", "0"}, `-rate is "0"`},
		"NaN":      {[]string{"-rate", "NaN"}, `-rate is "NaN"`},
		"duration": {[]string{"-duration", "1s"}, "-duration is 1s"},
		"outage":   {[]string{"-outage", "0s"}, "-outage is 0s"},
		"clients":  {[]string{"-clients", "3"}, "-clients is 3"},
		"p999":     {[]string{"-p999", "-1s"}, "-p999 is -1s"},
		"turns":    {[]string{"-turns", "0"}, "-turns is 0"},
		"rest":     {[]string{"now"}, `"now": want flags only`},
		"unknown":  {[]string{"-x"}, "-x"},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			_, err := parse(tc.args, &stderr)
			require.Error(t, err)
			require.Contains(t, stderr.String(), tc.says)
		})
	}
	o, err := parse([]string{"-duration", "1m"}, os.Stderr)
	require.NoError(t, err)
	require.Equal(t, 6*time.Second, o.outage, "a tenth at most")
	require.Equal(t, time.Second, o.every())
	o, err = parse([]string{"-rate", half}, os.Stderr)
	require.NoError(t, err)
	require.Zero(t, o.rate)
	require.Equal(t, time.Minute, o.every())
}

func TestParseSampleRefuses(t *testing.T) {
	_, err := parseSample(strings.NewReader("go_goroutines 5\n"))
	require.ErrorContains(t, err, "have no ")
	_, err = parseSample(strings.NewReader("<html>"))
	require.Error(t, err)
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 1234567: "1.23ms", 61_234 * time.Millisecond: "1m1.2s",
	} {
		require.Equal(t, want, short(d))
	}
}
