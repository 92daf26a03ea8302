package loadtest_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/test/proctest"
)

func decimal(id int64) string { return strconv.FormatInt(id, 10) }

func TestRepeatedID(t *testing.T) {
	t.Parallel()
	_, url := serve(t, func(f *fake, w http.ResponseWriter, r *http.Request, nth int64) {
		if nth == 10 {
			// What the first request got: of another connection, or of this one.
			_, _ = io.WriteString(w, "1\n2\n3")
			return
		}
		f.growing(w, r, nth)
	})
	cfg := config(url)
	cfg.Batch, cfg.Growing, cfg.Duration = 3, false, 500*time.Millisecond
	r := run(t, cfg)
	err := r.Verdict()
	require.ErrorIs(t, err, loadtest.ErrRepeated)
	require.NotErrorIs(t, err, loadtest.ErrNotGrowing)
	require.NotErrorIs(t, err, loadtest.ErrWrongAnswer)
	set := r.Unique[0]
	require.Equal(t, int64(3), r.Surplus())
	require.Equal(t, int64(3), set.Repeated)
	require.Len(t, set.First, 3)
	for i, d := range set.First {
		require.Equal(t, int64(i+1), d.ID)
		require.Equal(t, 2, d.Times)
	}
}

func TestIDsThatDoNotGrow(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		answer  func(f *fake, w http.ResponseWriter, r *http.Request, nth int64)
		batch   int
		growing bool
		mode    loadtest.Mode
		want    func(answers int64) int64
	}{
		{"across answers", falling, 1, true, loadtest.Snowflake, butOne},
		{"across answers, not asked", falling, 1, false, loadtest.Snowflake, none},
		{"across answers of segment IDs", falling, 1, true, loadtest.Segment, none},
		{"within an answer, whatever is asked", swapped, 4, false, loadtest.Segment, all},
		{"a repetition doesn't grow either", same, 1, true, loadtest.Snowflake, butOne},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, url := serve(t, tc.answer)
			cfg := config(url)
			// Ten requests, or a few less, of one connection.
			cfg.Clients, cfg.Rate, cfg.Batch, cfg.Growing, cfg.Mode, cfg.Check = 1, 50, tc.batch, tc.growing, tc.mode, false
			r := run(t, cfg)
			require.Equal(t, r.Sent, r.Answered)
			want := tc.want(r.Answered)
			require.Equal(t, want, r.NotGrowing)
			if want == 0 {
				require.NoError(t, r.Verdict())
				return
			}
			require.ErrorIs(t, r.Verdict(), loadtest.ErrNotGrowing)
		})
	}
}

func none(int64) int64           { return 0 }
func all(answers int64) int64    { return answers }
func butOne(answers int64) int64 { return answers - 1 }

func falling(_ *fake, w http.ResponseWriter, _ *http.Request, nth int64) {
	_, _ = io.WriteString(w, decimal(math.MaxInt64-nth))
}

func same(_ *fake, w http.ResponseWriter, _ *http.Request, _ int64) { _, _ = io.WriteString(w, "7") }

func swapped(_ *fake, w http.ResponseWriter, _ *http.Request, nth int64) {
	_, _ = fmt.Fprintf(w, "%d\n%d\n%d\n%d\n", nth*10, nth*10+2, nth*10+1, nth*10+3)
}

func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"", "1", "1\n2", "1\n2\n3\n4", "1\n2\nx", "-1\n2\n3", "1\n\n2", "<html>", "1\r\n2\r\n3", "01\n2\n3", "1\n2\n9223372036854775808", "1\n2\n18446744073709551617", "1\n2\n3.0", `{"ids":["1","2"]}`,
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			_, url := serve(t, func(_ *fake, w http.ResponseWriter, _ *http.Request, _ int64) { _, _ = io.WriteString(w, body) })
			cfg := config(url)
			cfg.Batch, cfg.Clients, cfg.Rate = 3, 1, 10
			r := run(t, cfg)
			require.ErrorIs(t, r.Verdict(), loadtest.ErrWrongAnswer)
			require.ErrorIs(t, r.Verdict(), loadtest.ErrFailed)
			require.Equal(t, r.Sent, r.Wrong)
			require.Equal(t, loadtest.Failure{Status: 200, Code: "wrong_answer", Count: r.Wrong, Example: r.Failures[0].Example}, r.Failures[0])
			require.Contains(t, r.Failures[0].Example, "IDs for 3 asked")
		})
	}
}

// TestBrokenAnswer: nothing is known of the IDs of an answer that didn't come whole.
func TestBrokenAnswer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	url := raw(t, func(nth int) string {
		switch nth {
		case 0:
			return response(6, "11\n12\n")
		case 1:
			return response(6, "11\n1") // would be 12, or 13
		case 2:
			return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n31\n\r\n3\r\n12"
		case 3:
			return "HTTP/1.1 200 OK\r\nContent-Le"
		case 8:
			cancel()
			return ""
		default:
			return ""
		}
	})
	cfg := config(url)
	cfg.Batch, cfg.Clients, cfg.Rate, cfg.Duration = 2, 1, 30, time.Minute
	r := runUntil(t, ctx, cfg)
	require.Equal(t, int64(1), r.Answered)
	require.Equal(t, int64(2), r.IDs)
	require.Equal(t, int64(2), r.Unique[0].IDs)
	require.Zero(t, r.Surplus())
	require.Len(t, r.Failures, 1)
	require.Equal(t, "connection_closed", r.Failures[0].Code)
	require.Equal(t, r.Failed, r.Failures[0].Count)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	f, url := serve(t, func(f *fake, w http.ResponseWriter, r *http.Request, nth int64) {
		switch nth % 5 {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"code":"overloaded","message":"too much"}`)
		case 1:
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"code":"rate_limited","message":"too much"}`)
		case 2:
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "<html>\x1b[2J")
		case 3:
			w.WriteHeader(http.StatusNoContent)
		default:
			f.growing(w, r, nth)
		}
	})
	cfg := config(url)
	r := run(t, cfg)
	require.NoError(t, r.Verdict(), "a refusal is a figure")
	nth := func(rest int64) int64 { return (f.requests.Load() + 5 - rest) / 5 }
	require.Equal(t, f.given.Load(), r.Answered)
	require.Equal(t, f.requests.Load()-f.given.Load(), r.Failed)
	require.ElementsMatch(t, []loadtest.Failure{
		{Status: 204, Count: nth(3), Example: ""},
		{Status: 429, Code: "rate_limited", Count: nth(1), Example: `{"code":"rate_limited","message":"too much"}`},
		{Status: 502, Count: nth(2), Example: "<html>\x1b[2J"},
		{Status: 503, Code: "overloaded", Count: f.requests.Load() / 5, Example: `{"code":"overloaded","message":"too much"}`},
	}, r.Failures)
}

func TestEverythingFails(t *testing.T) {
	t.Parallel()
	_, url := serve(t, func(_ *fake, w http.ResponseWriter, _ *http.Request, _ int64) {
		w.WriteHeader(http.StatusNotFound)
	})
	r := run(t, config(url))
	require.ErrorIs(t, r.Verdict(), loadtest.ErrFailed)
	require.Equal(t, loadtest.Latency{}, r.Latency)
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	dead := "http://" + proctest.DeadAddress(t)
	_, err := loadtest.Run(t.Context(), config(dead))
	require.ErrorIs(t, err, loadtest.ErrUnreachable)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	// One of two is a figure. A closed loop doesn't ask a dead port without end.
	_, url := serve(t, nil)
	r := run(t, config(dead, url))
	require.NoError(t, r.Verdict())
	require.Equal(t, "connection_refused", r.Failures[0].Code)
	require.Less(t, r.Targets[0].Failed, int64(200))
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	url, _, release := hanging(t)
	defer release()
	cfg := config(url)
	cfg.Timeout, cfg.Duration = time.Second, 1500*time.Millisecond
	r := run(t, cfg)
	require.ErrorIs(t, r.Verdict(), loadtest.ErrFailed)
	require.Equal(t, "timeout", r.Failures[0].Code)
}

func TestEndedWhileTheServerHangs(t *testing.T) {
	t.Parallel()
	url, asked, release := hanging(t)
	defer release()
	cfg := config(url)
	cfg.Duration = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for range cfg.Clients {
			<-asked
		}
		cancel()
	}()
	r := runUntil(t, ctx, cfg)
	require.Less(t, r.Window, cfg.Duration)
	require.Zero(t, r.Sent, "what the end kept from an answer")
	require.ErrorIs(t, r.Verdict(), loadtest.ErrFailed)
}

// hanging starts a server that answers no request until it is released; asked has one token for
// each of the first requests.
func hanging(t *testing.T) (url string, asked <-chan struct{}, release func()) {
	t.Helper()
	gate, arrived := make(chan struct{}), make(chan struct{}, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-gate
	}))
	t.Cleanup(server.Close)
	return server.URL, arrived, func() { close(gate) }
}
