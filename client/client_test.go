package client

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBadConfig(t *testing.T) {
	for _, test := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"nobody", Config{}, "Addresses"},
		{"no scheme", Config{Addresses: []string{"10.0.0.5:8080"}}, `"10.0.0.5:8080"`},
		{"a query", Config{Addresses: []string{"http://h/?a=b"}}, "want a URL"},
		{"user and password", Config{Addresses: []string{"http://u:p@h"}}, "want a URL"},
		{"MaxAhead", Config{Addresses: []string{"http://h"}, MaxAhead: 1}, "MaxAhead is 1"},
		{"RequestTimeout", Config{Addresses: []string{"http://h"}, RequestTimeout: -1}, "RequestTimeout"},
		{"MaxAge", Config{Addresses: []string{"http://h"}, MaxAge: time.Millisecond}, "MaxAge is 1ms"},
		{"Lease", Config{Addresses: []string{"http://h"}, Lease: 2 * time.Hour}, "Lease is 2h0m0s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(test.cfg)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestKeys(t *testing.T) {
	f := newFake(t)
	c := newClient(t, nil, f)
	again := c.Snowflake("a")
	require.Same(t, c.Snowflake("a"), again)
	require.NotSame(t, c.Snowflake("a"), c.Segment("a"))
	_, err := c.Segment("a/b ü?n=1").Next(within(t))
	require.NoError(t, err)
	require.Contains(t, f.requests()[0], "/api/segment/get/a%2Fb%20%C3%BC%3Fn=1?as=ranges&n=")
}

func TestClose(t *testing.T) {
	f := newFake(t)
	arrived := make(chan struct{}, 1)
	f.do(func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		arrived <- struct{}{}
		<-r.Context().Done() // until the client has gone
		return true
	})
	c := newClient(t, func(c *Config) { c.RequestTimeout = patience; c.MaxAge = -1 }, f)
	s := c.Snowflake("order")
	failed := make(chan error)
	go func() { _, err := s.Next(context.Background()); failed <- err }()
	<-arrived
	c.Close()
	require.ErrorIs(t, <-failed, ErrClosed)
	_, err := s.Next(context.Background())
	require.ErrorIs(t, err, ErrClosed)
	_, err = c.Snowflake("another").Next(context.Background())
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, s.NextN(context.Background(), make([]int64, 3)), ErrClosed)
	c.Close() // a second time does nothing
}

// TestFinalAnswer: a refusal that waiting doesn't change reaches the caller.
func TestFinalAnswer(t *testing.T) {
	f := newFake(t)
	f.do(func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		refuse(w, http.StatusNotFound, "unknown_key", 0)
		return true
	})
	s := newClient(t, nil, f).Segment("nobody")
	_, err := s.Next(within(t))
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, &Error{Address: f.URL, Status: 404, Code: "unknown_key", Message: "a message"}, e)
	require.True(t, e.Final())
	require.NotErrorIs(t, err, context.DeadlineExceeded, "at once")
	require.Len(t, f.requests(), 1)
	f.do(nil)
	_, err = s.Next(within(t))
	require.NoError(t, err, "once the tag is there")
}

// TestNewTag: a tag that one daemon doesn't know yet is served by the other.
func TestNewTag(t *testing.T) {
	knows, ignorant := newFake(t), newFake(t)
	ignorant.do(func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		refuse(w, http.StatusNotFound, "unknown_key", 0)
		return true
	})
	for range 5 { // it begins with any of them
		_, err := newClient(t, nil, ignorant, knows).Segment("new").Next(within(t))
		require.NoError(t, err)
	}
}

// TestRefusalsThatPass: the caller waits through them, and sees only its own deadline.
func TestRefusalsThatPass(t *testing.T) {
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusInternalServerError} {
		f := newFake(t)
		f.first(func(w http.ResponseWriter, _ int) { refuse(w, status, "clock_backwards", 0) })
		var reported failures
		s := newClient(t, func(c *Config) { c.Failed = reported.add }, f).Snowflake("order")
		_, err := s.Next(within(t))
		require.NoError(t, err)
		require.Len(t, reported.list(), 1)
		require.ErrorContains(t, reported.list()[0], "clock_backwards: a message")
		require.Equal(t, int64(1), s.Stats().Failures)
	}
}

func TestDeadlineTellsTheCause(t *testing.T) {
	f := newFake(t)
	f.do(func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		refuse(w, http.StatusServiceUnavailable, "ceiling_reached", 3)
		return true
	})
	c := newClient(t, nil, f)
	ctx, cancel := context.WithCancel(within(t))
	s := c.Snowflake("order")
	go func() {
		for s.Stats().Failures == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err := s.Next(ctx)
	require.ErrorIs(t, err, context.Canceled)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "ceiling_reached", e.Code)
	require.Equal(t, 3*time.Second, e.RetryAfter)
	require.False(t, e.Final())
}

// TestSmallerMaxBatch: the daemons' --max-batch is found out.
func TestSmallerMaxBatch(t *testing.T) {
	f := newFake(t)
	f.max = 5
	s := newClient(t, nil, f).Snowflake("order")
	require.NoError(t, s.NextN(within(t), make([]int64, 100)))
	require.LessOrEqual(t, s.Stats().Batch, 5)
}

// TestAnotherDaemon: one that is gone, hangs or talks nonsense is passed over, and taken
// up again once it is ready.
func TestAnotherDaemon(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		bad  func(w http.ResponseWriter, r *http.Request, n int) bool
	}{
		{"hangs", func(_ http.ResponseWriter, r *http.Request, _ int) bool { <-r.Context().Done(); return true }},
		{"resets", func(_ http.ResponseWriter, _ *http.Request, _ int) bool { panic(http.ErrAbortHandler) }},
		{"not leafd", func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			w.WriteHeader(http.StatusBadGateway)
			return true
		}},
		{"refuses", func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			refuse(w, http.StatusServiceUnavailable, "worker_fenced", 1)
			return true
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			good, bad := newFake(t), newFake(t)
			bad.do(test.bad)
			c := newClient(t, func(c *Config) { c.RequestTimeout = 200 * time.Millisecond }, good, bad)
			s := c.Snowflake("order")
			s.requests.order = []*daemon{c.daemons[1], c.daemons[0]} // the bad one is asked first
			_, err := s.Next(within(t))
			require.NoError(t, err)
			bad.do(nil)
			good.do(func(w http.ResponseWriter, _ *http.Request, _ int) bool {
				refuse(w, http.StatusServiceUnavailable, "draining", 30)
				return true
			})
			require.Eventually(t, func() bool {
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				defer cancel()
				_, err := s.Next(ctx)
				bad.mu.Lock()
				defer bad.mu.Unlock()
				return err == nil && bad.last > 0
			}, patience, time.Millisecond, "it is asked again once it has recovered")
		})
	}
}

// TestRollingRestart: after each daemon in turn was away, in the order of the list, each
// source is back at its home, and the daemons have equal shares of them. While one is away, its sources are
// spread over the others.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	const daemons, sources = 4, 200
	fakes := make([]*fake, daemons)
	for i := range fakes {
		fakes[i] = newFake(t)
		fakes[i].last = int64(i) << 32 // each has IDs of its own, as daemons have
	}
	c := newClient(t, func(c *Config) { c.MaxAhead = 2 }, fakes...)
	all := make([]*Source, sources)
	for i := range all {
		all[i] = c.Snowflake(strconv.Itoa(i))
	}
	// round has every source ask twice, and returns by daemon how many of the requests it had.
	round := func() []int {
		before, asked := make([]int, daemons), make([]int, daemons)
		requireIdle(t, all...)
		for i, f := range fakes {
			before[i] = len(f.requests())
		}
		for _, s := range all {
			require.NoError(t, s.NextN(within(t), make([]int64, 2)))
		}
		requireIdle(t, all...)
		for i, f := range fakes {
			asked[i] = len(f.requests()) - before[i]
		}
		return asked
	}
	for away, f := range fakes {
		f.do(func(http.ResponseWriter, *http.Request, int) bool { panic(http.ErrAbortHandler) })
		asked := round()
		for i, n := range asked {
			if i != away {
				require.Greater(t, n, sources/daemons, "while %d is away: %v", away, asked)
			}
		}
		f.do(nil)
		require.Eventually(t, func() bool { down, _ := c.daemons[away].state(); return !down }, patience, time.Millisecond)
	}
	homes := make([]int, daemons)
	for _, s := range all {
		homes[slices.Index(c.daemons, s.requests.order[0])]++
	}
	asked := round()
	require.Equal(t, []int{2 * homes[0], 2 * homes[1], 2 * homes[2], 2 * homes[3]}, asked, "each source is at home")
	for _, n := range homes {
		require.InDelta(t, sources/daemons, n, sources/daemons/2)
	}
}

// requireIdle waits until nothing is fetched any more.
func requireIdle(t *testing.T, sources ...*Source) {
	t.Helper()
	for _, s := range sources {
		require.Eventually(t, func() bool { return s.wanted() == 0 }, patience, time.Millisecond)
	}
}

// A refusal moves one request: the source asks its home again.
func TestRefusalMovesOneRequest(t *testing.T) {
	home, other := newFake(t), newFake(t)
	other.last = 1 << 32
	home.first(func(w http.ResponseWriter, _ int) { refuse(w, http.StatusServiceUnavailable, "overloaded", 0) })
	c := newClient(t, func(c *Config) { c.MaxAhead = 2 }, home, other)
	s := c.Snowflake("order")
	s.requests.order = slices.Clone(c.daemons)
	_, err := s.Next(within(t))
	require.NoError(t, err)
	require.Equal(t, []int{1, 1}, []int{len(home.requests()), len(other.requests())})
	require.Eventually(t, func() bool {
		_, err := s.Next(within(t))
		return err == nil && len(home.requests()) > 1
	}, patience, firstPause)
	requireIdle(t, s)
	asked := len(other.requests())
	require.NoError(t, s.NextN(within(t), make([]int64, 10)))
	require.Len(t, other.requests(), asked)
}

// TestAllAway: with no daemon at all, callers wait for the first that comes back.
func TestAllAway(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.do(func(http.ResponseWriter, *http.Request, int) bool { panic(http.ErrAbortHandler) })
	c := newClient(t, func(c *Config) { c.Addresses = append(c.Addresses, deadAddress(t)) }, f)
	s := c.Snowflake("order")
	served := make(chan error)
	go func() { _, err := s.Next(within(t)); served <- err }()
	require.Eventually(t, func() bool { return s.Stats().Failures >= 4 }, patience, time.Millisecond)
	f.do(nil)
	require.NoError(t, <-served)
}

// TestLeftAlone: a daemon that fails isn't asked over and over by callers that wait.
func TestLeftAlone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		bad  func(w http.ResponseWriter)
		rest time.Duration // between two requests, at least
	}{
		{"Retry-After", func(w http.ResponseWriter) { refuse(w, http.StatusTooManyRequests, "rate_limited", 30) }, 30 * time.Second},
		{"one of those behind it", func(w http.ResponseWriter) { refuse(w, http.StatusServiceUnavailable, "worker_fenced", 30) }, firstPause},
		{"no Retry-After", func(w http.ResponseWriter) { refuse(w, http.StatusServiceUnavailable, "worker_fenced", 0) }, firstPause},
		{"no answer", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, firstPause / 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.do(func(w http.ResponseWriter, _ *http.Request, _ int) bool { test.bad(w); return true })
			s := newClient(t, nil, f).Snowflake("order")
			ctx, cancel := context.WithCancel(within(t))
			failed := make(chan error, 1)
			began := time.Now()
			go func() { _, err := s.Next(ctx); failed <- err }()
			require.Eventually(t, func() bool { return s.Stats().Failures > 0 }, patience, time.Millisecond)
			time.Sleep(5 * firstPause)
			if test.rest <= firstPause { // one URL isn't left alone
				require.Eventually(t, func() bool { return len(f.requests()) > 2 }, patience, time.Millisecond)
			}
			asked, took := len(f.requests()), time.Since(began)
			cancel()
			require.ErrorIs(t, <-failed, context.Canceled)
			require.LessOrEqual(t, asked, 1+int(took/test.rest))
		})
	}
}
