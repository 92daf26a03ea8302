//go:build long

package server

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/test/webtest"
	"github.com/leafd/leafd/worker"
)

func TestDashboardOfAThousandWorkersAndAHundredThousandTags(t *testing.T) {
	t.Parallel()
	r := startEmpty(t, nil)
	browser := webtest.Open(t)
	r.SetBackend(r.crowd(1000, 100_000))
	for _, view := range []webtest.View{{Width: 1280, Height: 900}, {Width: 360, Height: 740, Dark: true}} {
		t.Run(view.String(), func(t *testing.T) {
			p := browser.Page("http://"+r.addr+"/", view)
			p.AwaitText("#workers-note", "980 of 1,000 live")
			p.AwaitText("#tags-note", "100,000 tags")
			p.AwaitText("#clocks-note", "Asked")
			require.Equal(t, 25, webtest.Eval[int](p, `document.querySelectorAll("#workers tbody tr").length`))
			require.Equal(t, 25, webtest.Eval[int](p, `document.querySelectorAll("#tags tbody tr").length`))
			require.Less(t, webtest.Eval[int](p, `document.querySelectorAll("*").length`), 5000)
			words := webtest.Eval[string](p, `document.querySelector("#clocks svg").getAttribute("aria-label")`)
			require.Contains(t, words, "Offsets of 978 of 979 peers")
			require.Contains(t, words, "2 beyond the threshold: 10.0.0.18:8080 −8.0 s, 10.0.3.152:8080 +2 h")
			require.Contains(t, words, "no answer from 10.0.0.34:8080")

			p.Click("#workers-pages button:last-child")
			p.AwaitText("#workers-pages", "26–50 of 1,000")
			p.AwaitText("#workers tbody", "10.0.0.26:8080")
			p.Type("#workers-filter", "clock off")
			p.AwaitText("#workers-note", "2 match")
			require.Equal(t, 2, webtest.Eval[int](p, `document.querySelectorAll("#workers tbody tr").length`))
			p.AwaitText("#workers tbody", "+2 h")

			p.Type("#tags-filter", "TAG-0999")
			p.AwaitText("#tags-note", "100 match")
			p.AwaitText("#tags tbody", "tag-099900")
			p.Type("#tags-filter", "77")
			p.AwaitText("#tags-note", "1 match")
			require.Equal(t, "tag-099977", strings.Fields(p.Text("#tags tbody"))[0])

			require.LessOrEqual(t, p.Overflow(), 0)
			require.Empty(t, p.Faint())
			require.Empty(t, p.Complaints())
			require.Empty(t, p.Strangers(r.addr))
		})
	}
}

// A page that was opened while the daemon starts, and one that is hidden.
func TestDashboardWaitsAndPauses(t *testing.T) {
	t.Parallel()
	r := startEmpty(t, nil)
	p := webtest.Open(t).Page("http://"+r.addr+"/", webtest.View{Width: 800, Height: 600})
	p.AwaitText("#verdict", "not ready: starting")
	p.AwaitText("#t-ceiling-sub", "no worker ID yet")
	b := r.newBackend()
	var late atomic.Int64
	b.Workers = func(context.Context) ([]views.WorkerInfo, error) {
		if late.Load() > 0 {
			return nil, worker.ErrUnreachable
		}
		return []views.WorkerInfo{b.Worker()}, nil
	}
	b.Clock = func() views.ClockInfo { // one peer, which has another time
		samples := []clock.Sample{{Address: "10.0.0.6:8080", Offset: 8 * time.Second}}
		return views.ClockInfo{Checked: clock.MillisOf(time.Now()).Add(-time.Duration(late.Load())), Verdict: clock.Estimate(samples, clock.Median), Threshold: 5 * time.Second, Samples: samples}
	}
	r.SetBackend(b)
	p.AwaitText("#verdict", "ready")
	p.AwaitText("#guards", "no majority")
	p.AwaitText("#tags tbody", "order")
	p.AwaitText("#tags tbody", "a/b")
	p.AwaitText("#clocks-note", "Asked just now")
	p.AwaitText("#workers-note", "1 of 1 live, seen ")
	late.Store(int64(time.Minute)) // asked no more, and ZooKeeper is gone
	p.AwaitText("#workers-note", "1 of 1 live, as of ")
	p.AwaitText("#workers-note", "registry_unreachable since.")
	p.Await(`document.querySelector("#workers").className === "stale" && document.querySelector("#t-workers").className === "stale"`)
	p.AwaitText("#clocks-note", "As of ")
	p.Await(`document.querySelector("#clocks").className === "picture stale"`)

	hide := func(hidden bool) {
		webtest.Eval[any](p, fmt.Sprintf(`Object.defineProperty(document, "hidden", {value: %v, configurable: true}); document.dispatchEvent(new Event("visibilitychange"))`, hidden))
	}
	hide(true)
	var before int
	require.Eventually(t, func() bool { // once what is under way has ended
		before = p.Asked()
		time.Sleep(2500 * time.Millisecond)
		return p.Asked() == before
	}, time.Minute, time.Millisecond, "it asks although hidden")
	hide(false)
	require.Eventually(t, func() bool { return p.Asked() > before+1 }, time.Minute, 20*time.Millisecond)
	require.Empty(t, p.Complaints())
}

// aging is a clock of a process that is older than it is.
type aging struct {
	clock.Clock
	ahead atomic.Int64
}

func (a *aging) Mono() time.Duration { return a.Clock.Mono() + time.Duration(a.ahead.Load()) }

// The page says what is wrong, why, for how long, what to do, and which workers are what;
// its chart has the last hour at once.
func TestDashboardSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	hostile := "<b>gone</b>\u202e"
	var fenced atomic.Bool
	var older aging
	r := startEmpty(t, func(c *Config) {
		c.Secure = true
		older.Clock, c.Clock = c.Clock, &older
		c.Conditions = func() []condition.Condition {
			store := condition.Of(segment.ErrStore, "MySQL", nil)
			store.Cause, store.Since = "tag "+hostile+": connection refused by 10.0.0.7:3306", c.Clock.Mono()-40500*time.Millisecond
			lost := condition.ByCode(condition.WorkerIDLost, "", nil)
			lost.Since = c.Clock.Mono() - 3*time.Minute - 500*time.Millisecond
			all := []condition.Condition{store, lost}
			if fenced.Load() {
				all = append([]condition.Condition{condition.Of(worker.ErrFenced, "", nil)}, all...)
			}
			return all
		}
		c.Events = func() []views.OverviewEvent {
			return []views.OverviewEvent{{Time: clock.MillisOf(time.Now()), Code: "worker_id_lost", Message: "our worker ID is lost", Cause: hostile}}
		}
	})
	for range 360 {
		older.ahead.Add(int64(views.HistoryInterval))
		r.views.TakeHistory()
	}
	b := r.newBackend()
	b.Clock = func() views.ClockInfo { return views.ClockInfo{} }
	now := clock.MillisOf(time.Now())
	later, past := now.Add(51*time.Hour+30*time.Minute), now.Add(-time.Hour)
	list := []views.WorkerInfo{
		{ID: 1, Node: "a", Address: "10.0.0.1:8080", State: views.WorkerLive, Limit: later},
		{ID: 2, Node: "b", Address: "[2001:db8::2]:8080", State: views.WorkerNotLive, Limit: later, FreeFrom: &later},
		{ID: 3, Node: "c", Address: "10.0.0.3:99999", State: views.WorkerNotLive, Limit: past, FreeFrom: &past},
		{ID: 4, Node: "d", Address: "example.com:80", State: views.WorkerReleased, Limit: past, FreeFrom: &past},
		{ID: 5, Node: strings.Repeat("long.name.", 12) + hostile, Address: "javascript:alert(1)", State: views.WorkerSettling, Limit: later, FreeFrom: &later},
		{ID: 6, Node: "f", Address: "127.0.0.1:8080", State: views.WorkerForeign, Timestamp: past},
		{ID: 7, Node: "10.0.0.5:8080", Address: "224.0.0.1:80", State: views.WorkerNotLive, Limit: later, FreeFrom: &later},
	}
	b.Workers = func(context.Context) ([]views.WorkerInfo, error) { return list, nil }
	self := b.Worker()
	self.Address = "10.0.0.5:8080"
	b.Worker = func() views.WorkerInfo { return self }
	r.SetBackend(b)

	p := webtest.Open(t).Page("http://"+r.addr+"/", webtest.View{Width: 1280, Height: 900})
	p.AwaitText("#workers-note", "1 of 7 live")
	require.GreaterOrEqual(t, webtest.Eval[int](p, `+document.querySelector("#rate [data-series=snowflake]").dataset.points`), 360, "at once")
	require.Regexp(t, "over the last (59 min|1 h)", webtest.Eval[string](p, `document.querySelector("#rate svg").getAttribute("aria-label")`))
	require.Equal(t, "degraded", p.Text("#verdict"))
	require.Equal(t, "warn", webtest.Eval[string](p, `document.querySelector("#head").className`))
	var alarms [][]string
	for _, a := range webtest.Eval[[]string](p, `[...document.querySelectorAll("#alarms > li")].map((li) => [...li.children].map((e) => e.textContent).join("|"))`) {
		alarms = append(alarms, strings.Split(a, "|"))
	}
	require.Equal(t, [][]string{
		{"MySQL: the database gives no range: tags have what is in memory", "tag <b>gone</b>\ufffd: connection refused by 10.0.0.7:3306, for 40 s", "What to do: The error says what is wrong: bring the database back, or lead --mysql to its primary. Put a table that is gone back; make no new one. (segment_store)"},
		{"our worker ID is lost: this data directory gets another one", "3 min ago", alarms[1][2]},
	}, alarms)
	require.Contains(t, p.Text("#events"), "our worker ID is lost")

	rows := webtest.Eval[[]string](p, `[...document.querySelectorAll("#workers tbody tr")].map((r) => [r.cells[2].innerText, r.cells[6].innerText, r.querySelector("a")?.href ?? ""].join("|"))`)
	require.Equal(t, []string{
		"live|–|https://10.0.0.1:8080/",
		"not live|in 2 d 3 h|https://[2001:db8::2]:8080/",
		"not live|now|",
		"released|now|",
		"settling|in 2 d 3 h|",
		"foreign|never by itself|",
		"this daemon: live|–|",
	}, rows, "an address leads only to where a daemon can be, and to this machine only from its own page")
	require.Equal(t, "noopener noreferrer", webtest.Eval[string](p, `document.querySelector("#workers a").rel`))

	for _, view := range []webtest.View{{Width: 1280, Height: 900}, {Width: 360, Height: 740}, {Width: 320, Height: 600, Dark: true}} {
		p.Look(view)
		p.Await(`document.querySelector("#rate svg").clientWidth <= innerWidth`)
		require.LessOrEqual(t, p.Overflow(), 0, view)
		require.Empty(t, p.Faint(), view)
		if view.Width < 560 {
			require.Empty(t, p.Cut(), view)
			require.Equal(t, "grid ID free again", webtest.Eval[string](p, `((row) => getComputedStyle(row).display + " " + row.cells[6].dataset.label)(document.querySelector("#workers tbody tr"))`), "a row is a card")
		}
	}
	fenced.Store(true)
	p.AwaitText("#verdict", "not ready: worker_fenced")
	p.AwaitText("#workers tbody", "this daemon: worker fenced")
	require.Equal(t, "bad", webtest.Eval[string](p, `document.querySelector("#head").className`))
	p.AwaitText("#h-banner", "Not ready: this daemon was displaced")
	p.Await(`document.title.startsWith("(not ready) 10.0.0.5:8080")`)
	require.Empty(t, p.Complaints())
}
