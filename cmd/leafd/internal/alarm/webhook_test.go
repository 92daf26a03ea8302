package alarm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/condition"
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
	r := newRigTo(t, s.URL+secretPath)
	require.Zero(t, r.delivered("ok"), "there from the start")
	r.start()
	r.Tell(condition.Of(segment.ErrBadRow, "a\"b\n<>", errors.New("below 7")))
	eventually(t, func() bool { return r.delivered("ok") == 1 })
	require.JSONEq(t, `{"code":"segment_bad_row","status":"firing","message":"the row can't be used: its ranges are refused","node":"10.0.0.5:8080","time":"2023-11-14T22:13:20.000Z",
		"version":"1.2.3","subject":"a\"b\n<>","error":"below 7"}`, s.bodies[0])
	require.Equal(t, "POST", s.last.Method)
	require.Equal(t, secretPath, s.last.RequestURI)
	require.Equal(t, "application/json", s.last.Header.Get("Content-Type"))
	require.Equal(t, "leafd/1.2.3", s.last.Header.Get("User-Agent"))

	r.raise("clock_jumped", "")
	eventually(t, func() bool { return r.delivered("ok") == 2 })
	require.NotContains(t, s.bodies[1], "subject")
	require.Zero(t, r.delivered("failed"))
}

// pipes is a network of its own, with waits that are those of a synctest bubble.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p.conns; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.conns) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours, nil
}

// hookOf has handler as r's webhook, over pipes, until close is called.
func hookOf(t *testing.T, r *rig, handler http.HandlerFunc) (end func()) {
	t.Helper()
	network := &pipes{conns: make(chan net.Conn)}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(network) }()
	r.client.Transport = &http.Transport{DialContext: network.dial, DisableKeepAlives: true}
	r.postTo("http://hook.example" + secretPath)
	return func() { require.NoError(t, server.Close()) }
}

func TestWebhookRetries(t *testing.T) {
	for _, test := range []struct {
		name        string
		answer      func(int, http.ResponseWriter)
		tries       int
		ok          bool
		least, most time.Duration // waited
	}{
		{"200", status(200), 1, true, 0, 0},
		{"each longer than the one before", status(500, 502, 503, 504), 5, true, 2 * time.Second, 7 * time.Second},
		{"408", status(408), 2, true, 250 * time.Millisecond, 750 * time.Millisecond},
		{"429", status(429), 2, true, 250 * time.Millisecond, 750 * time.Millisecond},
		{"400", status(400), 1, false, 0, 0},
		{"304", status(304), 1, false, 0, 0},
		{"500 for ever", func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, -1, false, 3 * time.Minute, retryFor},
		{"an answer that comes late", func(n int, _ http.ResponseWriter) {
			if n == 1 {
				time.Sleep(2 * tryTimeout)
			}
		}, 2, true, tryTimeout + 250*time.Millisecond, tryTimeout + 750*time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tries atomic.Int64 // a late handler still runs beside the next one
				r := newRig(t, nil)
				defer hookOf(t, r, func(w http.ResponseWriter, _ *http.Request) { test.answer(int(tries.Add(1)), w) })()
				stop := r.start()
				defer stop()
				before := time.Now()
				r.raise("clock_jumped", "")
				for r.delivered("ok")+r.delivered("failed") == 0 {
					time.Sleep(50 * time.Millisecond)
				}
				waited := time.Since(before)
				if test.tries >= 0 {
					require.EqualValues(t, test.tries, tries.Load())
				} else {
					require.Greater(t, tries.Load(), int64(5))
				}
				require.GreaterOrEqual(t, waited, test.least)
				require.LessOrEqual(t, waited, test.most+time.Second/10)
				require.Equal(t, test.ok, r.delivered("ok") == 1)
				stop()
				require.Equal(t, !test.ok, strings.Contains(r.lines.String(), "an alarm was not delivered"))
				if !test.ok {
					require.Contains(t, r.lines.String(), "http://hook.example answered ")
				}
				requireSecret(t, r)
				time.Sleep(2 * tryTimeout) // the handler that was late
			})
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
	r := newRigTo(t, "http://user:pa55@"+dead+secretPath)
	stop := r.start()
	r.raise("clock_jumped", "")
	stop()
	require.Equal(t, 1, r.delivered("failed"))
	require.Contains(t, r.lines.String(), "connection refused")
	require.Contains(t, r.lines.String(), `"code":"clock_jumped"`)
	require.NotContains(t, r.lines.String(), "pa55")
	requireSecret(t, r)
}

func TestWebhookRedirects(t *testing.T) {
	target := receive(t, nil)
	s := receive(t, func(_ int, w http.ResponseWriter) {
		w.Header().Set("Location", target.URL)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	r := newRigTo(t, s.URL+secretPath)
	stop := r.start()
	r.raise("clock_jumped", "")
	stop()
	require.EqualValues(t, 1, s.asked.Load())
	require.Zero(t, target.asked.Load())
	require.Equal(t, 1, r.delivered("failed"))
	require.Contains(t, r.lines.String(), "a redirect that is not followed")
	requireSecret(t, r)
}

// A receiver that hangs costs the alarms that don't fit, not the daemon.
func TestWebhookHangs(t *testing.T) {
	s := receive(t, nil)
	s.hold = make(chan struct{})
	r := newRigTo(t, s.URL)
	r.client.Timeout = time.Minute
	stop := r.start()
	code := func(i int) condition.Code { return condition.Code(fmt.Sprintf("test_%03d", i)) }
	const more = 10
	var want []string
	for i := range mostUnderWay + more {
		r.raise(code(i), "")
		want = append(want, string(code(i)))
	}
	require.Len(t, r.told(""), mostUnderWay+more)
	require.Equal(t, more, r.delivered("dropped"))
	require.Equal(t, more, strings.Count(r.lines.String(), "too many are on their way"))
	close(s.hold)
	eventually(t, func() bool { return r.delivered("ok") == mostUnderWay })
	require.ElementsMatch(t, want[:mostUnderWay], s.codes(t))
	stop()
	r.raise(code(mostUnderWay+more), "after the end")
	require.Equal(t, more+1, r.delivered("dropped"))
	require.Equal(t, int64(mostUnderWay), s.asked.Load())
}

func TestWebhookAtTheStop(t *testing.T) {
	t.Run("what is on its way is delivered", func(t *testing.T) {
		s := receive(t, nil)
		r := newRigTo(t, s.URL)
		r.raise("clock_refused", "before Run")
		r.raise("clock_jumped", "before Run")
		r.start()()
		require.ElementsMatch(t, []string{"clock_refused", "clock_jumped"}, s.codes(t))
		require.Equal(t, 2, r.delivered("ok"))
	})
	t.Run("a pause ends in a last try", func(t *testing.T) {
		s := receive(t, func(_ int, w http.ResponseWriter) {
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		r := newRigTo(t, s.URL)
		stop := r.start()
		r.raise("clock_jumped", "")
		<-s.got
		stop()
		require.Equal(t, int64(2), s.asked.Load())
		require.Equal(t, 1, r.delivered("failed"))
		require.Contains(t, r.lines.String(), s.URL+" answered 503")
	})
	t.Run("a receiver that hangs is left", func(t *testing.T) {
		s := receive(t, nil)
		s.hold = make(chan struct{})
		r := newRigTo(t, s.URL+secretPath)
		r.client.Timeout = time.Minute
		r.grace = 50 * time.Millisecond
		stop := r.start()
		r.raise("clock_jumped", "under way")
		r.raise(condition.ClockBackwards, "under way, too")
		<-s.got
		<-s.got
		stop()
		close(s.hold)
		require.Equal(t, 2, r.delivered("failed"))
		require.Equal(t, 2, strings.Count(r.lines.String(), "an alarm was not delivered"))
		requireSecret(t, r)
	})
}

// The webhook may change at any time: what is raised from then on goes to the new one, and so
// does what the one before it didn't take.
func TestWebhookChanges(t *testing.T) {
	first, second := receive(t, status(500, 500, 500)), receive(t, nil)
	r := newRig(t, nil)
	stop := r.start()
	r.raise(condition.SegmentStore, "there is no webhook")
	r.postTo(first.URL)
	r.raise("clock_jumped", "first")
	<-first.got
	r.postTo(second.URL)
	r.raise(condition.CeilingReached, "second")
	eventually(t, func() bool { return r.delivered("ok") == 2 })
	require.ElementsMatch(t, []string{"clock_jumped", "ceiling_reached"}, second.codes(t))
	r.SetWebhook(nil)
	r.raise("peers_silent", "there is none again")
	stop()
	require.Len(t, second.codes(t), 2)
	require.EqualValues(t, 1, first.asked.Load())
}

// The end of a code is told once nothing of it stands: no condition, and no event; and after what was told of it before,
// however long that was on its way.
func TestWebhookIsToldTheEnd(t *testing.T) {
	watched(t, func(t *testing.T, r *rig, w *world) {
		var mu sync.Mutex
		var all []string
		note := func(line string) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, line)
		}
		got := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(all)
		}
		defer hookOf(t, r, func(w http.ResponseWriter, req *http.Request) {
			var n notice
			if err := json.NewDecoder(req.Body).Decode(&n); err != nil {
				n.Subject = err.Error()
			}
			if len(got()) == 0 {
				note("late")
				time.Sleep(overAfter + tryTimeout/2)
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			note(string(n.Code) + " " + n.Status + " " + n.Subject)
		})()
		defer r.SetWebhook(nil) // before it closes

		store := func(tag string) condition.Condition { return condition.Of(segment.ErrBadRow, tag, nil) }
		w.set(store("a"), store("b"))
		pass(time.Second)
		w.set(store("b"))
		pass(time.Minute)
		require.Len(t, got(), 2, "b stands still")
		w.set()
		pass(2 * overAfter)
		w.set(store("c"))
		pass(time.Second)
		r.raise("clock_jumped", "")
		pass(time.Second)
		for range 2 * keptEvents { // no other code's events end it
			r.raise("clock_refused", "")
		}
		pass(condition.EventStands - 2*time.Second)
		require.Len(t, got(), 6)
		pass(3 * time.Second)
		require.Equal(t, []string{
			"late", "segment_bad_row firing a", "segment_bad_row resolved a", "segment_bad_row firing c", "clock_jumped firing ", "clock_refused firing ",
		}, got()[:6])
		require.ElementsMatch(t, []string{"clock_jumped resolved ", "clock_refused resolved "}, got()[6:])
	})
}

// A receiver that hangs is seen within 30 seconds, not once the alarm is given up.
func TestReceiverThatHangsIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer hookOf(t, r, func(http.ResponseWriter, *http.Request) { time.Sleep(2 * tryTimeout) })()
		stop := r.start()
		defer stop()
		r.raise("clock_jumped", "")
		time.Sleep(30*time.Second - condition.ByCode(condition.AlarmsUndelivered, "", nil).After)
		require.ErrorContains(t, r.Undelivered(), "http://hook.example")
		require.Zero(t, r.delivered("failed"), "it is tried still")
		stop()
		time.Sleep(2 * tryTimeout) // the handler that was late
	})
}
