package alarm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
)

func TestConfigIsChecked(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"no registerer", func(c *Config) { c.Registerer = nil }, "Registerer"},
		{"no clock", func(c *Config) { c.Clock = nil }, "Clock"},
		{"no URL", func(c *Config) { c.Webhook = "secret.example" }, "webhook"},
		{"no host", func(c *Config) { c.Webhook = "http:///secret" }, "webhook"},
		{"another scheme", func(c *Config) { c.Webhook = "ftp://secret.example/" }, "webhook"},
		{"a broken URL", func(c *Config) { c.Webhook = "http://secret.example:x/" }, "webhook"},
		{"no such program", func(c *Config) { c.Exec = "/nowhere/at/all" }, "/nowhere/at/all"},
		{"not a program", func(c *Config) { c.Exec = "codes.go" }, "codes.go"},
		{"a shell line", func(c *Config) { c.Exec = "echo hello" }, "echo hello"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := newRig(t, nil).cfg
			test.change(&cfg)
			_, err := New(cfg)
			require.ErrorIs(t, err, ErrConfig)
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, err.Error(), "secret")
		})
	}
	r := newRig(t, nil)
	_, err := New(r.cfg)
	require.ErrorContains(t, err, "metrics")
}

func TestAlarmIsALineAndACount(t *testing.T) {
	r := newRig(t, nil)
	for _, info := range Codes() {
		require.Zero(t, r.counter("leafd_alarms_total", string(info.Code)), "there from the start: %s", info.Code)
	}
	r.Raise(PeersDisagree, "most peers have another time",
		Err(errors.New("by 7 s")), Err(nil), F("none", nil), F("peers", 4), F("max", uint64(1<<63)), F("ok", false),
		F("took", 1500*time.Millisecond), F("at", clock.Millis(began)), F("tag", strings.Repeat("x", 10_000)))
	line := r.told(PeersDisagree)[0]
	require.Len(t, line["tag"], longest+len("…"))
	delete(line, "tag")
	require.Equal(t, map[string]any{
		"level": "error", "alarm": "peers_disagree", "message": "most peers have another time",
		"error": "by 7 s", "peers": 4.0, "max": 9223372036854775808.0, "ok": false, "took": "1.5s", "at": "2023-11-14T22:13:20.000Z",
	}, line)
	require.Equal(t, 1, r.counter("leafd_alarms_total", "peers_disagree"))
	r.Raise("of_tomorrow", "a code that the list doesn't have is an alarm all the same")
	require.Equal(t, 1, r.counter("leafd_alarms_total", "of_tomorrow"))
	require.Len(t, r.told(""), 2)
}

// alarm.R3: a hundred thousand tags that fail at once.
func TestFolding(t *testing.T) {
	r := newRig(t, nil)
	stop := r.start()
	const tags = 100_000
	for i := range tags {
		r.Raise(SegmentStore, "no range can be fetched", F("tag", i))
	}
	require.Len(t, r.told(SegmentStore), 1)
	r.Raise(ClockJumped, "another code is told at once")
	require.Len(t, r.told(ClockJumped), 1)
	require.Equal(t, tags, r.counter("leafd_alarms_total", "segment_store"))

	eventually(t, func() bool { return r.clock.Sleepers() == 1 })
	r.clock.Advance(FoldWindow - 1)
	r.Raise(SegmentStore, "the last one in the window", F("tag", "z"))
	require.Len(t, r.told(SegmentStore), 1)
	r.clock.Advance(1)
	eventually(t, func() bool { return len(r.told(SegmentStore)) == 2 })
	line := r.told(SegmentStore)[1]
	require.InDelta(t, tags, line["folded"], 0)
	require.Equal(t, "z", line["tag"])
	require.Equal(t, "the last one in the window", line["message"])

	// That line began a window of its own.
	r.clock.Advance(FoldWindow - 1)
	r.Raise(SegmentStore, "folded")
	require.Len(t, r.told(SegmentStore), 2)
	eventually(t, func() bool { return r.clock.Sleepers() == 1 })
	r.clock.Advance(1)
	eventually(t, func() bool { return len(r.told(SegmentStore)) == 3 })
	require.InDelta(t, 1, r.told(SegmentStore)[2]["folded"], 0)

	// A window in which nothing came ends without a line, and the next is a first.
	r.clock.Advance(FoldWindow)
	r.Raise(SegmentStore, "again")
	require.Len(t, r.told(SegmentStore), 4)
	require.NotContains(t, r.told(SegmentStore)[3], "folded")

	// What is folded when leafd stops is told.
	r.Raise(SegmentStore, "last")
	r.Raise(SegmentStore, "very last")
	require.Len(t, r.told(SegmentStore), 4)
	stop()
	require.Len(t, r.told(SegmentStore), 5)
	require.Equal(t, "very last", r.told(SegmentStore)[4]["message"])
	require.InDelta(t, 2, r.told(SegmentStore)[4]["folded"], 0)
	r.Raise(SegmentStore, "after the end each is told")
	r.Raise(SegmentStore, "after the end each is told")
	require.Len(t, r.told(SegmentStore), 7)
	require.Error(t, r.Run(context.Background()))
}

// An alarm after the window that Run has not ended yet takes what is folded along.
func TestFoldingBeforeRun(t *testing.T) {
	r := newRig(t, nil)
	for i := range 3 {
		r.Raise(ReportFailing, "failing", F("i", i))
	}
	r.clock.Advance(FoldWindow)
	r.Raise(ReportFailing, "failing", F("i", 3))
	require.Len(t, r.told(""), 2)
	require.InDelta(t, 3, r.told("")[1]["folded"], 0)
	r.Raise(ReportFailing, "failing", F("i", 4))
	r.start()
	eventually(t, func() bool { return r.clock.Sleepers() == 2 }) // the first window's, which is over, and this one's
	r.clock.Advance(FoldWindow)
	eventually(t, func() bool { return len(r.told("")) == 3 })
	eventually(t, func() bool { return r.clock.Sleepers() == 0 })
	require.InDelta(t, 1, r.told("")[2]["folded"], 0)
	require.Len(t, r.told(""), 3)
}

// The end of a window that a Raise has ended before does not end the next one.
func TestWindowThatIsNotOver(t *testing.T) {
	r := newRig(t, nil)
	r.Raise(ReportFailing, "first")
	r.Raise(ReportFailing, "folded")
	r.clock.Advance(FoldWindow - 1)
	r.unfold(ReportFailing)
	require.Len(t, r.told(""), 1)
	r.clock.Advance(1)
	r.unfold(ReportFailing)
	r.unfold(ReportFailing)
	require.Len(t, r.told(""), 2)
}

// alarm.R2 under load: what the lines tell adds up to what was raised, whoever ends a
// window, and whenever Run ends.
func TestEveryAlarmIsTold(t *testing.T) {
	codes := []Code{SegmentStore, ClockJumped, ReportFailing}
	for round := range 20 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			r := newRig(t, nil)
			stop := r.start()
			const raisers, each = 8, 300
			var all sync.WaitGroup
			for range raisers {
				all.Go(func() {
					for range each {
						r.Raise(codes[rand.IntN(len(codes))], "x")
						if rand.IntN(20) == 0 {
							r.clock.Advance(time.Duration(rand.Int64N(int64(2 * FoldWindow))))
						}
					}
				})
			}
			if round%2 == 0 {
				all.Wait()
			}
			stop()
			all.Wait()
			raised, told := 0, 0
			for _, code := range codes {
				raised += r.counter("leafd_alarms_total", string(code))
				for _, line := range r.told(code) {
					folded, ok := line["folded"].(float64)
					if !ok {
						folded = 1
					}
					told += int(folded)
				}
			}
			require.Equal(t, raisers*each, raised)
			require.Equal(t, raised, told)
		})
	}
}

func TestEveryCodeIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/ALARMS.md")
	require.NoError(t, err)
	seen := map[Code]bool{}
	for _, info := range Codes() {
		require.Regexp(t, `^[a-z]+(_[a-z]+)*$`, string(info.Code))
		require.False(t, seen[info.Code], "%s is there twice", info.Code)
		seen[info.Code] = true
		require.NotEmpty(t, info.Meaning)
		require.NotEmpty(t, info.Action)
		require.Contains(t, string(page), fmt.Sprintf("| `%s` | %s | %s |\n", info.Code, info.Meaning, info.Action))
	}
	require.Equal(t, len(seen), strings.Count(string(page), "\n| `"), "the page has a code that the program has not")
}
