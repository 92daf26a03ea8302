// Package simulation_test runs clusters of whole daemons (daemon.Run) in bubbles of testing/synctest, on a ZooKeeper,
// a table and a network in memory, and tells stories: faults at their times, after which every daemon has to serve
// again. It requires two things: no ID is issued twice, and every daemon that no fault hits serves, and each
// again within two minutes of the last one. A story that fails is told again without what it can do without,
// and printed as a list that TestSimulation takes (STORY).
package simulation_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"
)

// step is a fault of a story.
type step struct {
	at    time.Duration
	host  int // of those that are there
	fault string
	seed  uint64 // of what the fault draws
}

// story is what happens to a cluster.
type story struct {
	loses bool // ZooKeeper may lose data
	lends bool // the daemons lend slices, and their clients ask for fewer IDs
	steps []step
}

func (s story) String() string {
	text := fmt.Sprintf("loses=%t lends=%t\n", s.loses, s.lends)
	for _, step := range s.steps {
		text += fmt.Sprintf("%.1fs %d %d %s\n", step.at.Seconds(), step.host, step.seed, step.fault)
	}
	return text
}

func parse(t *testing.T, text string) (s story) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	_, err := fmt.Sscanf(lines[0], "loses=%t lends=%t", &s.loses, &s.lends)
	require.NoError(t, err)
	for _, line := range lines[1:] {
		f := strings.SplitN(strings.TrimSpace(line), " ", 4)
		at, err := time.ParseDuration(f[0])
		require.NoError(t, err)
		host, err := strconv.Atoi(f[1])
		require.NoError(t, err)
		seed, err := strconv.ParseUint(f[2], 10, 64)
		require.NoError(t, err)
		s.steps = append(s.steps, step{at, host, f[3], seed})
	}
	return s
}

// draw makes a story of the faults whose names only matches.
func draw(seed uint64, only *regexp.Regexp) story {
	r := rand.New(rand.NewPCG(seed, 42))
	s := story{loses: r.IntN(2) == 0, lends: r.IntN(3) == 0}
	names := s.may(only)
	if len(names) == 0 {
		s.loses = !s.loses
		names = s.may(only)
	}
	for range 8 + r.IntN(8) {
		s.steps = append(s.steps, step{some(r, 5*time.Second, 95*time.Second), r.IntN(4), names[r.IntN(len(names))], r.Uint64N(10000)})
	}
	slices.SortFunc(s.steps, func(a, b step) int { return int(a.at - b.at) })
	return s
}

// may returns the names of the faults that may happen in s, as often as they weigh.
func (s story) may(only *regexp.Regexp) (names []string) {
	for _, f := range faults {
		if (f.where == everywhere || f.where == loses == s.loses) && only.MatchString(f.name) {
			names = append(names, slices.Repeat([]string{f.name}, f.weight)...)
		}
	}
	return names
}

// tell tells s, and returns what is wrong, "" for nothing, and what came of it.
func tell(t *testing.T, s story) (wrong string, w *world) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, s)
		defer w.close()
		w.pass(time.Until(w.began))
		for _, step := range s.steps {
			w.after(step.at-3*time.Second-time.Since(w.began), func() { w.hosts[step.host].heat(3 * time.Second) })
			w.after(step.at-time.Since(w.began), func() {
				i := slices.IndexFunc(faults, func(f fault) bool { return f.name == step.fault })
				h := w.hosts[step.host]
				if !faults[i].may(w, h) {
					return
				}
				faults[i].do(w, h, rand.New(rand.NewPCG(step.seed, 1)))
			})
		}
		for time.Since(w.began) < 105*time.Second && w.failed() == "" {
			w.pass(10 * time.Second)
			w.backups = append(w.backups, w.zk.Backup())
			w.tables = append(w.tables, w.table.Snapshot())
		}
		if w.failed() == "" {
			w.heal()
		}
		wrong = w.failed()
	})
	return wrong, w
}

// shrink returns s without what it fails without.
func shrink(t *testing.T, s story) story {
	t.Helper()
	for i := 0; i < len(s.steps); {
		less := story{s.loses, s.lends, slices.Delete(slices.Clone(s.steps), i, i+1)}
		wrong, _ := tell(t, less)
		if wrong == "" {
			wrong, _ = tell(t, less) // the order of goroutines differs
		}
		if wrong != "" {
			s = less
		} else {
			i++
		}
	}
	return s
}

// TestSimulation tells stories: those of some seeds, or from SEED on as many as MINUTES have room for, or that in the file STORY;
// FAULTS is a regular expression of those that may happen.
func TestSimulation(t *testing.T) {
	seed, stories, minutes := uint64(1), 5, 0.0
	for name, value := range map[string]any{"SEED": &seed, "MINUTES": &minutes} {
		if text := os.Getenv(name); text != "" {
			_, err := fmt.Sscan(text, value)
			require.NoError(t, err, name)
			stories = 1
		}
	}
	only := regexp.MustCompile(os.Getenv("FAULTS"))
	began, told, issued, lent := time.Now(), 0, 0, 0
	for i := uint64(0); i < uint64(stories) || time.Since(began).Minutes() < minutes; i++ {
		s := draw(seed+i, only)
		if path := os.Getenv("STORY"); path != "" {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			s = parse(t, string(text))
		}
		wrong, w := tell(t, s)
		told++
		issued += len(w.issued[snowflakes])
		lent += int(w.borrowed.Load())
		if wrong != "" {
			took := time.Since(began).Seconds()
			if os.Getenv("SHRINK") != "no" {
				s = shrink(t, s)
			}
			require.Fail(t, wrong, "seed %d, found after %.1f s; it fails with:\n%s", seed+i, took, s)
		}
	}
	t.Logf("%d stories: %d snowflake IDs, %d slices", told, issued, lent)
	require.Greater(t, issued, told*10_000)
}

func TestMain(m *testing.M) {
	// A goroutine of fasthttp's goes on for the whole process, which none of a bubble may.
	_ = new(fasthttp.ResponseHeader).Header()
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}
