package alarm

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := newRig(t, nil).cfg
			cfg.Registerer = prometheus.NewRegistry()
			test.change(&cfg)
			_, err := New(cfg)
			require.ErrorIs(t, err, ErrConfig)
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestAlarmIsALineAndACount(t *testing.T) {
	r := newRig(t, nil)
	for _, info := range Codes() {
		require.Zero(t, r.counter("leafd_alarms_total", string(info.Code)), "there from the start: %s", info.Code)
	}
	r.Raise(PeersDisagree, "most peers have another time",
		Err(errors.New("by 7 s")), Err(nil), F("none", nil), F("peers", 4), F("max", int64(1<<60)), F("ok", false),
		F("took", 1500*time.Millisecond), F("at", clock.Millis(began)), F("tag", strings.Repeat("x", 10_000)))
	line := r.told(PeersDisagree)[0]
	require.Len(t, line["tag"], longest+len("…"))
	delete(line, "tag")
	require.Equal(t, map[string]any{
		"level": "error", "alarm": "peers_disagree", "message": "most peers have another time",
		"error": "by 7 s", "peers": 4.0, "max": "1152921504606846976", "ok": false, "took": "1.5s", "at": "2023-11-14T22:13:20.000Z",
	}, line)
	require.Equal(t, 1, r.counter("leafd_alarms_total", "peers_disagree"))
	r.Raise("of_tomorrow", "a code that the list doesn't have is an alarm all the same")
	require.Equal(t, 1, r.counter("leafd_alarms_total", "of_tomorrow"))
	require.Len(t, r.told(""), 2)
}

// alarm.R2 and R3: a hundred thousand tags that fail at once.
func TestManyAlarmsOfACode(t *testing.T) {
	hook := receive(t, nil)
	r := newRig(t, func(c *Config) { c.Webhook = hook.URL })
	stop := r.start()
	const tags = 10_000
	for i := range tags {
		r.Raise(SegmentStore, "no range can be fetched", F("tag", i))
	}
	r.Raise(ClockJumped, "another code is posted at once")
	require.Len(t, r.told(SegmentStore), tags)
	require.Equal(t, tags, r.counter("leafd_alarms_total", "segment_store"))
	eventually(t, func() bool { return r.delivered("ok") == 2 })

	r.clock.Advance(PostPause - 1)
	r.Raise(SegmentStore, "still in the pause")
	r.clock.Advance(1)
	r.Raise(SegmentStore, "after the pause")
	stop()
	require.Equal(t, []string{"segment_store", "clock_jumped", "segment_store"}, hook.codes(t))
	require.Contains(t, hook.bodies[2], "after the pause")
	require.Zero(t, r.delivered("dropped"))
}

// alarm.R2 under load: each is logged and counted, and each code is posted once.
func TestEveryAlarmIsTold(t *testing.T) {
	hook := receive(t, nil)
	r := newRig(t, func(c *Config) { c.Webhook = hook.URL })
	stop := r.start()
	codes := []Code{SegmentStore, ClockJumped, ReportFailing}
	const raisers, each = 8, 300
	var all sync.WaitGroup
	for range raisers {
		all.Go(func() {
			for i := range each {
				r.Raise(codes[i%len(codes)], "x")
			}
		})
	}
	all.Wait()
	stop()
	require.Len(t, r.told(""), raisers*each)
	for _, code := range codes {
		require.Equal(t, raisers*each/len(codes), r.counter("leafd_alarms_total", string(code)))
	}
	require.ElementsMatch(t, []string{"segment_store", "clock_jumped", "report_failing"}, hook.codes(t))
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
