package alarm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/worker"
)

// world is what the parts of a daemon tell, in a test.
type world struct {
	mu  sync.Mutex
	now []condition.Condition
}

func (w *world) set(now ...condition.Condition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = now
}

func (w *world) ask() []condition.Condition {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]condition.Condition{}, w.now...)
}

// watched runs test with alarms that look at w, in a bubble.
func watched(t *testing.T, test func(t *testing.T, r *rig, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		r := newRig(t, func(c *Config) {
			c.Ask, c.Clock = w.ask, clocktest.NewBubble(time.UnixMilli(began))
		})
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = r.Run(ctx) })
		defer run.Wait()
		defer stop()
		test(t, r, w)
	})
}

// pass lets the time pass, and the loop look.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Every row of the table: it begins once it has lasted for its After, is told once,
// and is over by itself five seconds after no part tells it any more.
func TestEachConditionBeginsAndEnds(t *testing.T) {
	for _, row := range condition.Rows() {
		if row.Event || row.Severity == condition.Note {
			continue
		}
		t.Run(string(row.Code)+" "+row.Headline, func(t *testing.T) {
			watched(t, func(t *testing.T, r *rig, w *world) {
				c := condition.ByCode(row.Code, "the disk", errors.New("boom"))
				if row.Is != nil {
					c = condition.Of(row.Is, "the disk", errors.New("boom"))
				}
				require.Equal(t, row.Headline, c.Headline, "the row is found by its sentinel")
				w.set(c)
				if row.After > 0 {
					pass(row.After - lookEvery)
					require.NotContains(t, r.lines.String(), string(row.Code), "not before it has lasted")
				}
				pass(time.Minute)
				want := 0
				if row.Severity == condition.Alarm {
					want = 1
					require.Equal(t, 1, r.counter("leafd_alarms_total", string(row.Code)))
				}
				require.Len(t, r.told(row.Code), want)
				require.Equal(t, 1, strings.Count(r.lines.String(), row.Headline), "once")
				now := r.Now()
				require.Len(t, now, 1)
				require.InDelta(t, (row.After + time.Minute).Seconds(), (r.cfg.Clock.Mono() - now[0].Since).Seconds(), 1)
				w.set()
				require.Empty(t, r.Now(), "who asks sees at once that it is over")
				pass(overAfter - time.Second)
				require.NotContains(t, r.lines.String(), `"over"`)
				pass(2 * time.Second)
				require.Equal(t, 1, strings.Count(r.lines.String(), fmt.Sprintf(`"over":%q`, row.Code)))
			})
		})
	}
}

// One that comes and goes is told once, and another subject is another condition.
func TestFlappingIsToldOnce(t *testing.T) {
	watched(t, func(t *testing.T, r *rig, w *world) {
		for range 20 {
			w.set(condition.Of(worker.ErrUnreachable, "", nil))
			pass(time.Second)
			w.set()
			pass(4 * time.Second)
		}
		require.Len(t, r.told("registry_unreachable"), 1)
		require.NotContains(t, r.lines.String(), `"over"`)
		w.set(condition.Of(segment.ErrBadRow, "a", nil))
		pass(time.Second)
		w.set(condition.Of(segment.ErrBadRow, "a", errors.New("another cause")), condition.Of(segment.ErrBadRow, "b", nil))
		pass(time.Second)
		require.Len(t, r.told(condition.SegmentBadRow), 2)
	})
}

// An unguarded range or two, because of one slow write, is no alarm.
func TestWhatIsShortIsNotTold(t *testing.T) {
	watched(t, func(t *testing.T, r *rig, w *world) {
		w.set(condition.Of(segment.ErrUnguarded, "ZooKeeper", errors.New("late")))
		pass(700 * time.Millisecond)
		require.Len(t, r.Now(), 1, "who asks is told")
		w.set()
		pass(time.Minute)
		require.Empty(t, r.lines.String())
	})
}

// Events are told at once, the last ones are kept, and those of severity alarm stand for ten minutes.
func TestEvents(t *testing.T) {
	watched(t, func(t *testing.T, r *rig, _ *world) {
		for i := range keptEvents + 10 {
			r.Tell(condition.Of(condition.ErrMovedForward, fmt.Sprintf("t%03d", i), nil))
		}
		require.Len(t, r.told(condition.SegmentRegressed), keptEvents+10)
		require.Len(t, r.Events(), keptEvents)
		require.Equal(t, "t209", r.Events()[0].Subject, "the newest is first")
		require.Len(t, r.Now(), keptEvents)
		pass(condition.EventStands - time.Second)
		r.raise(condition.WorkerIDLost, "")
		r.raise(condition.WorkerIDLost, "")
		pass(2 * time.Second)
		require.Len(t, r.Now(), 1, "once for each subject")
		require.Equal(t, condition.WorkerIDLost, r.Now()[0].Code)
		require.Len(t, r.Events(), keptEvents, "they are kept for people to read")
		require.NotContains(t, r.lines.String(), `"over"`)
	})
}

// A hundred thousand tags at once.
func TestManyAlarmsOfACode(t *testing.T) {
	hook := receive(t, nil)
	r := newRigTo(t, hook.URL)
	stop := r.start()
	const tags = 10_000
	for range tags {
		r.raise(condition.SegmentBadRow, "")
	}
	r.raise("clock_jumped", "")
	require.Len(t, r.told(condition.SegmentBadRow), tags)
	require.Equal(t, tags, r.counter("leafd_alarms_total", "segment_bad_row"))
	eventually(t, func() bool { return r.delivered("ok") == 2 })

	r.clock.Advance(PostPause - 1)
	r.raise(condition.SegmentBadRow, "in the pause")
	r.clock.Advance(1)
	r.raise(condition.SegmentBadRow, "after the pause")
	stop()
	require.ElementsMatch(t, []string{"segment_bad_row", "clock_jumped", "segment_bad_row"}, hook.codes(t))
	require.Contains(t, hook.bodies[2], "after the pause")
	require.Zero(t, r.delivered("dropped"))
}

func TestAlarmIsALineAndACount(t *testing.T) {
	r := newRig(t, nil)
	want := map[condition.Code]int{}
	for _, info := range condition.Rows() {
		if _, seen := want[info.Code]; !seen {
			want[info.Code] = -1
		}
		if info.Severity == condition.Alarm {
			want[info.Code] = 0
		}
	}
	for code, n := range want {
		require.Equal(t, n, r.counter("leafd_alarms_total", string(code)), "there from the start: %s", code)
	}
	r.Tell(condition.Of(worker.ErrPeersDisagree, strings.Repeat("x", 10_000), errors.New("by 7 s")))
	line := r.told("peers_disagree")[0]
	require.Len(t, line["subject"], longest+len("…"))
	delete(line, "subject")
	c := condition.ByCode("peers_disagree", "", nil)
	require.Equal(t, map[string]any{"level": "error", "alarm": "peers_disagree", "message": c.Headline, "error": "by 7 s", "do": c.Action}, line)
	r.raise("of_tomorrow", "a code that the table doesn't have is an alarm all the same")
	require.Equal(t, 1, r.counter("leafd_alarms_total", "of_tomorrow"))
	require.Len(t, r.told(""), 2)
}

// docs/ALARMS.md says of each code what happened, and has the table's words of what to do.
func TestEveryCodeIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/ALARMS.md")
	require.NoError(t, err)
	actions, documented := map[condition.Code][]string{}, map[condition.Code]bool{}
	for _, info := range condition.Rows() {
		if info.Action != "" {
			require.Regexp(t, `^[a-z]+(_[a-z]+)*$`, string(info.Code))
			actions[info.Code] = append(actions[info.Code], info.Action)
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [^|]+ \\| ([^|]+) \\|$").FindAllStringSubmatch(string(text), -1) {
		require.Contains(t, actions[condition.Code(row[1])], row[2], "%s is a code, and this is what to do", row[1])
		documented[condition.Code(row[1])] = true
	}
	for code := range actions {
		require.True(t, documented[code], "%s is in docs/ALARMS.md", code)
	}
}

// What takes long to ask is asked again after nine times as long, and half a second at
// most; what takes no time is asked each time.
func TestAskingIsBounded(t *testing.T) {
	t.Parallel()
	var r *rig
	asked, takes := 0, time.Duration(0)
	r = newRig(t, func(c *Config) {
		c.Ask = func() []condition.Condition {
			asked++
			r.clock.Advance(takes)
			return []condition.Condition{condition.ByCode(condition.SegmentStore, "", nil)}
		}
	})
	for range 3 {
		require.Len(t, r.Now(), 1)
	}
	require.Equal(t, 3, asked)
	for _, c := range []struct{ takes, rests time.Duration }{{10 * time.Millisecond, 90 * time.Millisecond}, {time.Second, lookEvery}} {
		asked, takes = 0, c.takes
		r.Now()
		r.clock.Advance(c.rests - 1)
		require.Len(t, r.Now(), 1)
		require.Equal(t, 1, asked)
		r.clock.Advance(1)
		r.Now()
		require.Equal(t, 2, asked)
		r.clock.Advance(c.rests)
	}
}
