package alarm

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/proctest"
)

const secretPath = "/services/T0K3N?key=s3cr3t"

// receiver is a real HTTP server that keeps what it gets.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string      // mu protects
	last   *http.Request // mu protects
	hold   chan struct{} // requests wait for it, if not nil
	got    chan struct{} // a token for each request
	answer func(n int, w http.ResponseWriter)
	asked  atomic.Int64
}

// receive starts one; answer writes the response to the nth request, from 1 on.
func receive(t *testing.T, answer func(n int, w http.ResponseWriter)) *receiver {
	t.Helper()
	s := &receiver{answer: answer, got: make(chan struct{}, 1000)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		n := int(s.asked.Add(1))
		s.mu.Lock()
		s.bodies, s.last = append(s.bodies, string(body)), r
		s.mu.Unlock()
		s.got <- struct{}{}
		if s.hold != nil {
			<-s.hold
		}
		if s.answer != nil {
			s.answer(n, w)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *receiver) codes(t *testing.T) []string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, b := range s.bodies {
		var m struct{ Code string }
		require.NoError(t, json.Unmarshal([]byte(b), &m), b)
		list = append(list, m.Code)
	}
	return list
}

// status answers with these, one after the other, and then with 200.
func status(codes ...int) func(int, http.ResponseWriter) {
	return func(n int, w http.ResponseWriter) {
		if n <= len(codes) {
			w.WriteHeader(codes[n-1])
		}
	}
}

func TestWebhookBody(t *testing.T) {
	s := receive(t, nil)
	r := newRig(t, func(c *Config) { c.Webhook = s.URL + secretPath })
	r.start()
	r.Raise(SegmentRegressed, "max_id went backwards", F("tag", "a\"b\n<>"), F("high", int64(1)<<60), F("low", -5), Err(nil))
	eventually(t, func() bool { return r.delivered("ok", "webhook") == 1 })
	require.JSONEq(t, `{"code":"segment_regressed","message":"max_id went backwards","node":"10.0.0.5:8080","time":"2023-11-14T22:13:20.000Z",
		"version":"1.2.3","fields":{"tag":"a\"b\n<>","high":"1152921504606846976","low":-5},"folded":0}`, s.bodies[0])
	require.Equal(t, "POST", s.last.Method)
	require.Equal(t, secretPath, s.last.RequestURI)
	require.Equal(t, "application/json", s.last.Header.Get("Content-Type"))
	require.Equal(t, "leafd/1.2.3", s.last.Header.Get("User-Agent"))

	for range 5 {
		r.Raise(SegmentRegressed, "again")
	}
	eventually(t, func() bool { return r.clock.Sleepers() == 1 })
	r.clock.Advance(FoldWindow)
	eventually(t, func() bool { return r.delivered("ok", "webhook") == 2 })
	require.Contains(t, s.bodies[1], `"folded":5`)
	require.Contains(t, s.bodies[1], `"fields":{}`)
	require.Zero(t, r.delivered("failed", "webhook"))
	require.Equal(t, 0, r.delivered("ok", "exec"), "there from the start")
}

func TestWebhookRetries(t *testing.T) {
	at := time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC) // the receiver's clock is not ours
	after := func(value string, codes ...int) func(int, http.ResponseWriter) {
		return func(n int, w http.ResponseWriter) {
			w.Header().Set("Date", at.Format(http.TimeFormat))
			w.Header().Set("Retry-After", value)
			status(codes...)(n, w)
		}
	}
	for _, test := range []struct {
		name        string
		answer      func(int, http.ResponseWriter)
		tries       int
		ok          bool
		least, most time.Duration // waited, on our clock
	}{
		{"200", status(200), 1, true, 0, 0},
		{"204", status(204), 1, true, 0, 0},
		{"500, then 200", status(500), 2, true, 800 * time.Millisecond, 1200 * time.Millisecond},
		{"each longer than the one before", status(500, 502, 503, 504), 5, true, 12 * time.Second, 18 * time.Second},
		{"408", status(408), 2, true, 800 * time.Millisecond, 1200 * time.Millisecond},
		{"429", status(429), 2, true, 800 * time.Millisecond, 1200 * time.Millisecond},
		{"429 with a pause", after("30", 429), 2, true, 30 * time.Second, 30 * time.Second},
		{"503 with a date", after(at.Add(45*time.Second).Format(http.TimeFormat), 503), 2, true, 45 * time.Second, 45 * time.Second},
		{"a date that is over", after(at.Add(-time.Hour).Format(http.TimeFormat), 503), 2, true, 800 * time.Millisecond, 1200 * time.Millisecond},
		{"a pause that is none", after("soon", 503), 2, true, 800 * time.Millisecond, 1200 * time.Millisecond},
		{"a negative pause", after("-5", 503), 2, true, 800 * time.Millisecond, 1200 * time.Millisecond},
		{"a pause of an hour", after("3600", 503), 1, false, 0, 0},
		{"400", status(400), 1, false, 0, 0},
		{"401 with a pause", after("1", 401), 1, false, 0, 0},
		{"404", status(404), 1, false, 0, 0},
		{"410", status(410), 1, false, 0, 0},
		{"304", status(304), 1, false, 0, 0},
		{"500 for ever", func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, -1, false, 3 * time.Minute, retryFor},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := receive(t, test.answer)
			r := newRig(t, func(c *Config) { c.Webhook = s.URL + secretPath })
			r.clock.AutoAdvance()
			r.start()
			before := r.clock.Mono()
			r.Raise(ClockJumped, "x")
			eventually(t, func() bool { return r.delivered("ok", "webhook")+r.delivered("failed", "webhook") == 1 })
			if test.tries >= 0 {
				require.Equal(t, int64(test.tries), s.asked.Load())
			} else {
				require.Greater(t, s.asked.Load(), int64(5))
			}
			waited := r.clock.Mono() - before
			require.GreaterOrEqual(t, waited, test.least)
			require.LessOrEqual(t, waited, test.most)
			require.Equal(t, test.ok, r.delivered("ok", "webhook") == 1)
			eventually(t, func() bool { return test.ok || strings.Contains(r.lines.String(), "not delivered") })
			if !test.ok {
				require.Contains(t, r.lines.String(), s.URL+" answered ")
			}
			requireSecret(t, r)
		})
	}
}

// requireSecret fails when the log tells the webhook's path or query.
func requireSecret(t *testing.T, r *rig) {
	t.Helper()
	require.NotContains(t, r.lines.String(), "T0K3N")
	require.NotContains(t, r.lines.String(), "s3cr3t")
}

func TestWebhookDown(t *testing.T) {
	dead := proctest.DeadAddress(t)
	r := newRig(t, func(c *Config) { c.Webhook = "http://user:pa55@" + dead + secretPath })
	r.clock.AutoAdvance()
	r.start()
	r.Raise(ClockJumped, "x")
	eventually(t, func() bool { return strings.Contains(r.lines.String(), "given up after") })
	require.Equal(t, 1, r.delivered("failed", "webhook"))
	require.Contains(t, r.lines.String(), "connection refused")
	require.Contains(t, r.lines.String(), `"code":"clock_jumped"`)
	require.NotContains(t, r.lines.String(), "pa55")
	requireSecret(t, r)
}

func TestWebhookSlow(t *testing.T) {
	s := receive(t, nil)
	s.hold = make(chan struct{})
	r := newRig(t, func(c *Config) { c.Webhook = s.URL + secretPath })
	r.outlets[0].to.Load().deliverer.(*webhook).timeout = 500 * time.Millisecond
	r.start()
	r.Raise(ClockJumped, "x")
	<-s.got
	eventually(t, func() bool { return r.clock.Sleepers() == 1 }) // the try has timed out
	close(s.hold)
	eventually(t, func() bool {
		if r.clock.Sleepers() == 1 { // a busy machine may need more than one
			r.clock.Advance(time.Second)
		}
		return r.delivered("ok", "webhook") == 1
	})
	require.GreaterOrEqual(t, s.asked.Load(), int64(2))
	requireSecret(t, r)
}

func TestWebhookRedirects(t *testing.T) {
	target := receive(t, nil)
	to := func(code int, url string) func(int, http.ResponseWriter) {
		return func(_ int, w http.ResponseWriter) {
			w.Header().Set("Location", url)
			w.WriteHeader(code)
		}
	}
	for _, test := range []struct {
		name   string
		answer func(int, http.ResponseWriter)
		ok     bool
		asked  int64 // of the first server
	}{
		{"307", to(307, target.URL), true, 1},
		{"308", to(308, target.URL), true, 1},
		{"302 makes it a GET", to(302, target.URL), false, 1},
		{"303 makes it a GET", to(303, target.URL), false, 1},
		{"another scheme", to(307, strings.Replace(target.URL, "http:", "https:", 1)), false, 1},
		{"in a circle", to(307, "/"), false, redirects + 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			target.asked.Store(0)
			s := receive(t, test.answer)
			r := newRig(t, func(c *Config) { c.Webhook = s.URL + secretPath })
			r.start()
			r.Raise(ClockJumped, "x")
			eventually(t, func() bool { return r.delivered("ok", "webhook")+r.delivered("failed", "webhook") == 1 })
			require.Equal(t, test.asked, s.asked.Load())
			require.Equal(t, test.ok, target.asked.Load() == 1)
			require.Equal(t, test.ok, r.delivered("ok", "webhook") == 1)
			if test.ok {
				require.Contains(t, target.bodies[len(target.bodies)-1], `"code":"clock_jumped"`)
			}
			requireSecret(t, r)
		})
	}
}
