package loadtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/test/proctest"
)

func decimal(id int64) string { return strconv.FormatInt(id, 10) }

// TestIDsThatDoNotGrow: snowflake IDs do from answer to answer where that is asked, and any within one.
func TestIDsThatDoNotGrow(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		body    func(nth int64) string
		batch   int
		growing bool
		mode    loadtest.Mode
		fell    func(answers int64) int64
	}{
		{"across answers", falling, 1, true, loadtest.Snowflake, func(n int64) int64 { return n - 1 }},
		{"across answers, not asked", falling, 1, false, loadtest.Snowflake, func(int64) int64 { return 0 }},
		{"across answers of segment IDs", falling, 1, true, loadtest.Segment, func(int64) int64 { return 0 }},
		{"within an answer", func(nth int64) string { return fmt.Sprintf("%d\n%d\n", nth*10+1, nth*10) }, 2, false, loadtest.Segment, func(n int64) int64 { return n }},
		{"repeated", func(int64) string { return "7" }, 1, true, loadtest.Snowflake, func(n int64) int64 { return n - 1 }},
	} {
		_, url := serve(t, func(_ *fake, w http.ResponseWriter, _ *http.Request, nth int64) {
			_, _ = io.WriteString(w, tc.body(nth))
		})
		cfg := config(url)
		cfg.Clients, cfg.Rate, cfg.Batch, cfg.Growing, cfg.Mode, cfg.Check = 1, 50, tc.batch, tc.growing, tc.mode, false
		r := run(t, cfg)
		require.Equal(t, tc.fell(r.Answered), r.NotGrowing, tc.name)
		require.Equal(t, r.NotGrowing > 0, errors.Is(r.Verdict(), loadtest.ErrNotGrowing), tc.name)
	}
}

func falling(nth int64) string { return decimal(math.MaxInt64 - nth) }

func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "1\n2", "1\n2\n3\n4", "1\n2\nx", `{"ids":["1","2"]}`} {
		_, url := serve(t, func(_ *fake, w http.ResponseWriter, _ *http.Request, _ int64) { _, _ = io.WriteString(w, body) })
		cfg := config(url)
		cfg.Batch, cfg.Clients, cfg.Rate = 3, 1, 10
		r := run(t, cfg)
		require.ErrorIs(t, r.Verdict(), loadtest.ErrWrongAnswer, body)
		require.ErrorIs(t, r.Verdict(), loadtest.ErrFailed)
		require.Equal(t, r.Sent, r.Wrong)
		require.Contains(t, r.Failures[0].Example, "IDs for 3 asked")
		require.Equal(t, loadtest.Failure{Status: 200, Code: "wrong_answer", Count: r.Wrong, Example: r.Failures[0].Example}, r.Failures[0])
	}
}

// TestServerHangs: requests time out; the end of the load doesn't wait for their answers, or count them.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	gate, asked := make(chan struct{}), make(chan struct{}, 1000)
	defer close(gate)
	_, url := serve(t, func(*fake, http.ResponseWriter, *http.Request, int64) { <-gate })
	cfg := config(url)
	cfg.Timeout, cfg.Duration = time.Second, 1500*time.Millisecond
	require.Equal(t, "timeout", run(t, cfg).Failures[0].Code)

	_, url = serve(t, func(*fake, http.ResponseWriter, *http.Request, int64) {
		asked <- struct{}{}
		<-gate
	})
	cfg = config(url)
	cfg.Timeout, cfg.Duration = time.Hour, time.Hour
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
	require.Zero(t, r.Sent)
	require.ErrorIs(t, r.Verdict(), loadtest.ErrFailed)
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
