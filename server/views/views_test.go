package views

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/fair"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/worker"
)

func newViews(t *testing.T, clk clock.Clock) *Server {
	t.Helper()
	var cfg Config
	cfg.Base, cfg.Clock, cfg.Registry, cfg.MaxConns, cfg.MaxInflight = context.Background(), clk, prometheus.NewRegistry(), 10, 10
	cfg.IdleTimeout, cfg.ReadTimeout, cfg.WriteTimeout = time.Hour, time.Hour, time.Hour
	answers, err := reply.New(cfg.Registry, cfg.Log)
	require.NoError(t, err)
	source, err := ids.New(cfg.Config, answers, ids.Live{})
	require.NoError(t, err)
	a, err := conn.NewAdmission(cfg.Config.Config)
	require.NoError(t, err)
	s, err := New(cfg, source, a)
	require.NoError(t, err)
	return s
}

// silent is a connection from which nothing is read, and a listener with it alone.
type silent struct {
	net.Conn
	net.Listener
}

func (s *silent) Accept() (net.Conn, error)     { return s, nil }
func (*silent) Addr() net.Addr                  { return &net.TCPAddr{} }
func (*silent) Close() error                    { return nil }
func (*silent) Read([]byte) (int, error)        { return 0, io.EOF }
func (*silent) SetReadDeadline(time.Time) error { return nil }
func (*silent) LocalAddr() net.Addr             { return &net.TCPAddr{} }
func (*silent) RemoteAddr() net.Addr            { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)} }

// acceptedView returns a connection that is under way.
func accepted(t *testing.T) *conn.Conn {
	t.Helper()
	a, err := conn.NewAdmission(conn.Config{Base: context.Background(), Registry: prometheus.NewRegistry(), MaxConns: 10, IdleTimeout: time.Hour, ReadTimeout: time.Hour, WriteTimeout: time.Hour})
	require.NoError(t, err)
	l := a.Listen(&silent{}, conn.Public, conn.Serving{Client: ids.NewClient})
	t.Cleanup(l.End)
	c, err := l.Accept()
	require.NoError(t, err)
	_, _ = c.Read(make([]byte, 1))
	return conn.Of(c)
}

func newRequest(c net.Conn, target string) *fasthttp.RequestCtx {
	ctx := &fasthttp.RequestCtx{}
	ctx.Init2(c, nil, false)
	ctx.Request.Header.SetRequestURI(target)
	return ctx
}

// get returns the status of the answer to a GET.
func get(t *testing.T, s *Server, target string) int {
	t.Helper()
	ctx := newRequest(accepted(t), target)
	s.Routes(conn.Public).Handler(ctx)
	return ctx.Response.StatusCode()
}

// few is Segments with none in memory, and rows a table without any.
type few struct{ ids.Segments }

func (few) Used(func(segment.Status) bool)                   {}
func (few) Page(string, string, int) ([]segment.Status, int) { return nil, 0 }

type rows struct{ segment.Admin }

func (rows) Page(context.Context, string, string, int) ([]segment.Row, error) { return nil, nil }

// One reading at a time serves all that ask for the same state, and rests, with its error, as long as is written there; what a process
// that was frozen for an hour read then is not shown for hours more.
func TestReadingsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newViews(t, clock.System())
		k := kept[int]{every: time.Second, pause: 4}
		n := 0
		var takes time.Duration
		ask := func(state string) int {
			r, _ := k.get(s, state, func() (int, error) {
				n++
				mine := n
				time.Sleep(takes)
				return mine, nil
			})
			return r.value
		}
		for _, step := range []struct {
			passes, takes time.Duration
			state         string
			want          int
		}{
			{0, 2 * time.Second, "a", 1},
			{8*time.Second - 1, 0, "a", 1},
			{1, 0, "a", 2},
			{time.Second - 1, 0, "a", 2},
			{1, time.Hour, "a", 3},
			{mostPause - 1, 0, "a", 3},
			{1, 0, "a", 4},
			{0, 0, "b", 5},
			{0, 0, "a", 6},
		} {
			time.Sleep(step.passes)
			takes = step.takes
			var asking sync.WaitGroup
			for range 20 {
				asking.Go(func() {
					if got := ask(step.state); got != step.want {
						t.Errorf("got %d, want %d", got, step.want)
					}
				})
			}
			asking.Wait()
		}
		turns := fair.NewTurns(1, 1, 1)
		require.NoError(t, s.inTurn(newRequest(accepted(t), "/db"), turns, func() error { time.Sleep(time.Hour); return nil }))
		time.Sleep(mostPause)
		synctest.Wait()
		require.Zero(t, turns.Busy())
	})
}

// What was read is current for twice as long as until the next reading, which takes as long as the last did
// and a rest; and is stale as soon as a reading fails.
func TestWhatIsStale(t *testing.T) {
	for name, tc := range map[string]struct{ took, current time.Duration }{
		"quick": {0, 8 * time.Second},
		"slow":  {time.Second, 14 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newViews(t, clock.System())
			k := kept[int]{every: 2 * time.Second, pause: pauseFactor}
			require.False(t, k.stale(k.seen()), "nothing was read")
			got, err := k.get(s, "", func() (int, error) { time.Sleep(tc.took); return 7, nil })
			require.NoError(t, err)
			require.Equal(t, 7, got.value)
			time.Sleep(tc.current)
			require.False(t, k.stale(k.seen()), name)
			time.Sleep(time.Millisecond)
			require.True(t, k.stale(k.seen()), name)
			for range 2 { // the error is kept, too
				got, err = k.get(s, "", func() (int, error) { return 0, worker.ErrUnreachable })
				require.ErrorIs(t, err, worker.ErrUnreachable)
				require.Equal(t, 7, got.value, "as read last")
				require.True(t, k.stale(got), name)
			}
		})
	}
}

// However many ask, one Snapshot is made in a second, and what is made from it once.
func TestSnapshotServesForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newViews(t, clock.System())
		first, made := s.Snapshot(), 0
		for range 2 {
			text, err := first.text("x", func() ([]byte, error) { made++; return []byte("x"), nil })
			require.NoError(t, err)
			require.Equal(t, "x", string(text))
		}
		require.Equal(t, 1, made)
		time.Sleep(SnapshotAge - 1)
		require.Same(t, first, s.Snapshot())
		time.Sleep(time.Nanosecond)
		require.NotSame(t, first, s.Snapshot())
	})
}

// A change of what is wrong, of what is served or of tags ends a Snapshot at once, also one that is being made.
func TestSnapshotEndsWithAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wrong []condition.Condition
		s := newViews(t, clock.System())
		s.SetBackend(&Backend{})
		s.cfg.Conditions = func() []condition.Condition { return slices.Clone(wrong) }
		for i, change := range []func(){
			func() { wrong = append(wrong, condition.ByCode(condition.NotReady, "", nil)) },
			func() { wrong = nil },
			func() { s.SetBackend(nil) },
			func() { s.SetBackend(&Backend{}) },
			s.changed,
			s.Drain,
		} {
			release, first := make(chan struct{}), true
			s.cfg.Events = func() []OverviewEvent {
				if first {
					first = false
					<-release
				}
				return nil
			}
			time.Sleep(SnapshotAge)
			go s.Snapshot()
			synctest.Wait()
			change()
			now := s.Snapshot()
			ready := map[int]bool{1: true, 3: true, 4: true}[i]
			require.Equal(t, ready, now.IsReady(), i)
			close(release)
			synctest.Wait()
			require.Equal(t, ready, s.Snapshot().IsReady(), i)
		}
	})
}

func TestTagsThatNeedLookingAtComeFirst(t *testing.T) {
	var all []segment.Status
	for i := range 500 {
		all = append(all, segment.Status{Tag: fmt.Sprintf("t%03d", i), Rate: float64(i % 7)})
	}
	all[250].Failing = "locked"
	v := pickTags(slices.Values(all), "")
	require.Len(t, v.List, overviewTags)
	require.Equal(t, 1, v.Failing)
	require.Equal(t, 400, v.LeftOut)
	var names []string
	for _, tag := range v.List[:4] {
		names = append(names, tag.Tag)
	}
	require.Equal(t, []string{"t250", "t006", "t013", "t020"}, names, "failing ones, then busy ones, then by name")
	for i := 3; i < len(v.List); i++ {
		require.LessOrEqual(t, compareTags(v.List[i-1], v.List[i]), 0)
	}
}

func TestVerdictOnTheClock(t *testing.T) {
	sample := func(offset time.Duration) clock.Sample { return clock.Sample{Address: "a", Offset: offset} }
	for _, test := range []struct {
		name    string
		checked clock.Millis
		samples []clock.Sample
		want    string
	}{
		{"never", 0, nil, "unchecked"},
		{"nobody", 1, nil, "alone"},
		{"silence", 1, []clock.Sample{{Address: "a", Err: errors.New("refused")}}, "silent"},
		{"agree", 1, []clock.Sample{sample(time.Second), sample(-time.Second)}, "agree"},
		{"a majority is off", 1, []clock.Sample{sample(time.Hour), sample(time.Hour), sample(time.Hour), sample(0)}, "disagree"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := overviewClock(ClockInfo{Checked: test.checked, Samples: test.samples, Threshold: 5 * time.Second, Verdict: clock.Estimate(test.samples, clock.Median)})
			require.Equal(t, test.want, c.Verdict)
			require.Equal(t, c.Answered > 0, c.Estimate != nil)
			require.Len(t, c.Peers, len(test.samples))
		})
	}
}

// No request has a turn while others have them all, and none waits for ever.
func TestListsAreMadeInTurns(t *testing.T) {
	s := newViews(t, clock.System())
	s.SetBackend(&Backend{Backend: ids.Backend{Segments: few{}}, Admin: &segment.Table{Admin: rows{}}})
	turns := s.lists[conn.Public].own
	var all fair.Waiter
	take := func() { require.True(t, turns.Take(&all, fair.Address{}, maxLists, time.Minute, nil)) }
	take()
	for _, path := range []string{"/db?tag=o", "/cache?tag=o", "/api/segments?after=a", "/api/segments?limit=5", "/api/workers?limit=5", "/api/overview?tag=o"} {
		answered := make(chan int, 1)
		ctx, handle := newRequest(accepted(t), path), s.Routes(conn.Public).Handler
		go func() { handle(ctx); answered <- ctx.Response.StatusCode() }()
		require.Never(t, func() bool { return len(answered) > 0 }, 100*time.Millisecond, 10*time.Millisecond, path)
		turns.Give(maxLists)
		require.Equal(t, http.StatusOK, <-answered, path)
		take() // once the turn has rested
	}
	for _, path := range []string{"/db", "/cache", "/api/segments", "/api/workers", "/api/overview", "/api/history", "/metrics"} {
		require.Equal(t, http.StatusOK, get(t, s, path), "%s is the same for all, and has turns of its own", path)
	}
	require.Equal(t, http.StatusServiceUnavailable, get(t, s, "/db?tag=o"))
}

// Lists have their own room.
func TestUnreadListsAreBounded(t *testing.T) {
	s := newViews(t, clock.System())
	busy := accepted(t) // under way
	lists := s.unread[conn.Public]
	text := []byte(strings.Repeat("x", ids.InlineBytes+1))
	require.True(t, busy.Hold(lists, busy.Origin(), maxUnreadLists))
	require.Equal(t, reply.ErrOverloaded.Code, reply.To(s.answer(newRequest(accepted(t), "/db"), reply.ContentText, text)).Code)
	require.NoError(t, s.answer(newRequest(accepted(t), "/db"), reply.ContentText, text[1:]), "small")
	require.Equal(t, http.StatusOK, get(t, s, "/metrics"))
	busy.LetGo(lists)
	ctx := newRequest(accepted(t), "/db")
	require.NoError(t, s.answer(ctx, reply.ContentText, text))
	require.EqualValues(t, len(text), lists.Held())
	require.Equal(t, string(text), string(ctx.Response.Body()))
	ctx.Response.Reset()
	require.Zero(t, lists.Held())
}

// What a peer says is bounded, and nothing of it is believed that no daemon says.
func TestPeersAreNotTrusted(t *testing.T) {
	s := newViews(t, clock.System())
	long := strings.Repeat("x", 1000)
	for name, tc := range map[string]struct {
		answer PeerAnswer
		status string
		check  func(Summary) bool
	}{
		"a daemon":        {PeerAnswer{Body: []byte(`{"worker_id":3,"node":"n","status":"degraded","message":"m","snowflake":5,"hour":[1,2]}`)}, "degraded", func(s Summary) bool { return *s.WorkerID == 3 && s.Snowflake == 5 && len(s.Hour) == 2 }},
		"none":            {PeerAnswer{Err: errors.New("no answer")}, "no_answer", func(s Summary) bool { return s.Message == "no answer" && s.Hour != nil }},
		"no JSON":         {PeerAnswer{Body: []byte(`<html>`)}, "no_answer", nil},
		"another service": {PeerAnswer{Body: []byte(`{"node":"n"}`)}, "no_answer", func(s Summary) bool { return s.Node == "" }},
		"unknown status":  {PeerAnswer{Body: []byte(`{"status":"<b>"}`)}, "no_answer", nil},
		"long texts":      {PeerAnswer{Body: fmt.Appendf(nil, `{"status":"ready","node":%q,"version":%q,"code":%q,"message":%q}`, long, long, long, long)}, "ready", func(s Summary) bool { return len(s.Node)+len(s.Version)+len(s.Code)+len(s.Message) < 4*310 }},
		"a long hour":     {PeerAnswer{Body: []byte(`{"status":"ready","hour":[` + strings.Repeat("1,", 500) + `2]}`)}, "ready", func(s Summary) bool { return len(s.Hour) == hourPoints && s.Hour[hourPoints-1] == 2 }},
		"impossible rates": {PeerAnswer{Body: []byte(`{"status":"ready","snowflake":-1,"segment":1e300,"hour":[1e300,-5,3]}`)}, "ready", func(s Summary) bool {
			return s.Snowflake == 0 && s.Segment == 0 && s.Hour[0]+s.Hour[1] == 0 && s.Hour[2] == 3
		}},
		"numbers as texts": {PeerAnswer{Body: []byte(`{"status":"ready","snowflake":"5"}`)}, "no_answer", nil},
	} {
		sum := s.summaryOf(tc.answer)
		require.Equal(t, tc.status, sum.Status, name)
		require.True(t, tc.check == nil || tc.check(sum), "%s: %+v", name, sum)
	}
}

// A summary has a number a minute.
func TestMinutes(t *testing.T) {
	var h history
	var ids float64
	for i := range historyPoints + 10 {
		ids += float64(i) * 10 // i IDs a second
		h.add(time.Duration(i+1)*HistoryInterval, [3]float64{ids, 0, 0})
		if i == 13 {
			last, _, hour := h.minutes()
			require.Equal(t, []float64{4.5, 10.5}, hour, "two whole minutes, and 20 s that are older")
			require.InDelta(t, 13, last, 0)
		}
	}
	h.add((historyPoints+10)*HistoryInterval, [3]float64{}) // no time has passed
	text, err := h.text()
	require.NoError(t, err)
	var all History
	require.NoError(t, json.Unmarshal(text, &all))
	require.Len(t, all.Points, historyPoints)
	require.Equal(t, HistoryPoint{Uptime: reply.Milliseconds(11 * HistoryInterval), Snowflake: 10}, all.Points[0])
	_, _, hour := h.minutes()
	require.Len(t, hour, hourPoints)
	require.InDelta(t, 12.5, hour[0], 0)
	require.InDelta(t, 366.5, hour[hourPoints-1], 0)
}

func TestOffsetOfAWorker(t *testing.T) {
	for why, sample := range map[string]clock.Sample{
		"":                                {Node: "a", Offset: time.Second, RTT: time.Millisecond},
		`node "b" answers there, not "a"`: {Node: "b", Offset: time.Second, RTT: time.Millisecond},
		strings.Repeat("x", 300) + "…":    {Err: errors.New(strings.Repeat("x", 400))},
	} {
		w := WorkerInfo{Node: "a"}
		w.SetOffset(sample)
		require.Equal(t, why, w.OffsetError)
		require.Equal(t, why == "", w.Offset != nil && *w.Offset == reply.Milliseconds(time.Second) && *w.RTT == reply.Milliseconds(time.Millisecond))
	}
}

func TestProfilesAreBounded(t *testing.T) {
	ctx := newRequest(nil, "/debug/pprof/profile?debug=1")
	ctx.SetUserValue("profile", "profile")
	require.NoError(t, boundProfile(ctx))
	require.Equal(t, "/debug/pprof/profile?debug=1&seconds=10", string(ctx.RequestURI()), "else it takes 30")
}
