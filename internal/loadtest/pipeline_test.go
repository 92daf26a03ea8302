package loadtest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/internal/loadtest"
)

func TestPipelineOfAHealthyServer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(c *loadtest.Config)
	}{
		{"closed loop", func(*loadtest.Config) {}},
		{"the most", func(c *loadtest.Config) { c.Pipeline = loadtest.MaxPipeline }},
		{"batches", func(c *loadtest.Config) { c.Batch = 300 }},
		{"open loop", func(c *loadtest.Config) { c.Rate = 2000 }},
		{"one connection", func(c *loadtest.Config) { c.Clients, c.Rate = 1, 2000 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f, url := serve(t, nil)
			cfg := config(url)
			cfg.Pipeline = 7
			tc.change(&cfg)
			r := run(t, cfg)
			require.NoError(t, r.Verdict())
			require.Empty(t, r.Failures)
			require.Equal(t, f.requests.Load(), r.Sent)
			require.Equal(t, f.given.Load(), r.IDs)
			require.Equal(t, r.Answered*int64(cfg.Batch), r.IDs)
			require.Equal(t, r.IDs, r.Unique[0].IDs)
			if cfg.Rate > 0 {
				require.Equal(t, int64(400), r.Due)
				require.Equal(t, r.Due, r.Sent+r.NotSent)
			}
		})
	}
}

// Requests are together on the way: a server that takes long over the first of a
// connection keeps the others that were sent with it.
func TestPipelineIsSentTogether(t *testing.T) {
	t.Parallel()
	const slow = time.Second
	_, url := serve(t, func(f *fake, w http.ResponseWriter, r *http.Request, nth int64) {
		if nth == 1 {
			time.Sleep(slow)
		}
		f.growing(w, r, nth)
	})
	cfg := config(url)
	cfg.Clients, cfg.Pipeline, cfg.Duration = 1, 5, slow/2
	r := run(t, cfg)
	require.Equal(t, int64(5), r.Answered)
	require.GreaterOrEqual(t, r.Latency.P50, slow)
}

// One connection asks for each of the tags in turn, and their IDs are compared by tag.
func TestKeysInTurn(t *testing.T) {
	t.Parallel()
	for _, pipeline := range []int{1, 5} {
		f := map[string]*fake{"a": {}, "b": {}, "c": {}}
		_, url := serve(t, func(_ *fake, w http.ResponseWriter, r *http.Request, nth int64) {
			of := f[r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]]
			of.requests.Add(1)
			of.growing(w, r, nth)
		})
		cfg := config(url)
		cfg.Mode, cfg.Keys, cfg.Clients, cfg.Pipeline = loadtest.Segment, []string{"a", "b", "c"}, 1, pipeline
		r := run(t, cfg)
		require.NoError(t, r.Verdict(), "the tags have the same IDs, which is no repetition")
		for i, key := range cfg.Keys {
			require.Equal(t, key, r.Unique[i].Key)
			require.Equal(t, f[key].given.Load(), r.Unique[i].IDs)
			require.InDelta(t, r.Answered/3, f[key].requests.Load(), 1)
		}
	}
}

// An answer in another form than leafd's has the next ones behind it.
func TestPipelineOfEveryForm(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(f *fake, w http.ResponseWriter, r *http.Request, nth int64){
		"chunked": func(f *fake, w http.ResponseWriter, r *http.Request, nth int64) {
			w.(http.Flusher).Flush()
			f.growing(w, r, nth)
		},
		"some chunked, some interim, some long": func(f *fake, w http.ResponseWriter, r *http.Request, nth int64) {
			switch nth % 4 {
			case 0:
				w.(http.Flusher).Flush()
			case 1:
				w.WriteHeader(http.StatusEarlyHints)
			case 2:
				w.Header().Set("X-Long", strings.Repeat("x", 10_000))
			}
			f.growing(w, r, nth)
		},
	} {
		for _, batch := range []int{1, 3000} {
			f, url := serve(t, answer)
			cfg := config(url)
			cfg.Pipeline, cfg.Batch = 6, batch
			r := run(t, cfg)
			require.NoError(t, r.Verdict(), name)
			require.Empty(t, r.Failures, name)
			require.Equal(t, f.given.Load(), r.IDs, name)
		}
	}
}

// What was sent with an answer after which the server ends the connection, or in the
// midst of which it breaks, has failed, and its IDs may be used up.
func TestPipelineThatEnds(t *testing.T) {
	t.Parallel()
	t.Run("connection closed after each", func(t *testing.T) {
		t.Parallel()
		f, url := serve(t, func(f *fake, w http.ResponseWriter, r *http.Request, nth int64) {
			w.Header().Set("Connection", "close")
			f.growing(w, r, nth)
		})
		cfg := config(url)
		cfg.Pipeline = 4
		r := run(t, cfg)
		require.Equal(t, f.given.Load(), r.IDs)
		require.Equal(t, "connection_closed", r.Failures[0].Code)
		require.Equal(t, 3*r.Answered, r.Failures[0].Count)
		require.Equal(t, r.Failed, r.Unknown)
	})
	for name, tc := range map[string]struct {
		text     string
		answered int64 // of four
		code     string
	}{
		"broken off in the third":  {response(1, "1") + response(1, "2") + response(1, ""), 2, "connection_closed"},
		"broken off in a head":     {response(1, "1") + "HTTP/1.1 200 OK\r\nContent-Le", 1, "connection_closed"},
		"closed after the third":   {response(1, "1") + response(1, "2") + response(1, "3"), 3, "connection_closed"},
		"another form breaks off":  {response(1, "1") + "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n2\r\n", 1, "connection_closed"},
		"no HTTP after the second": {response(1, "1") + response(1, "2") + "SSH-2.0\r\n\r\n", 2, "transport"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(raw(t, func(int) string { return tc.text }))
			cfg.Check, cfg.Growing, cfg.Pipeline, cfg.Clients = false, false, 4, 1
			r := run(t, cfg)
			bursts := r.Sent / 4
			require.Positive(t, bursts)
			require.Equal(t, tc.answered*bursts, r.Answered)
			require.Equal(t, (4-tc.answered)*bursts, r.Failures[0].Count, "%v", r.Failures)
			require.Equal(t, tc.code, r.Failures[0].Code)
		})
	}
	t.Run("more answers than requests", func(t *testing.T) {
		t.Parallel()
		cfg := config(raw(t, func(int) string { return strings.Repeat(response(1, "1"), 5) }))
		cfg.Check, cfg.Growing, cfg.Pipeline, cfg.Clients = false, false, 4, 1
		r := run(t, cfg)
		require.Zero(t, r.Failed)
		require.Zero(t, r.Answered%4)
	})
	t.Run("closed unanswered", func(t *testing.T) {
		t.Parallel()
		_, url := serve(t, func(_ *fake, w http.ResponseWriter, _ *http.Request, _ int64) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = c.Close()
			}
		})
		cfg := config(url)
		cfg.Pipeline = 3
		r := run(t, cfg)
		require.Zero(t, r.Answered)
		require.Zero(t, r.Failed%3)
		require.ErrorIs(t, r.Verdict(), loadtest.ErrFailed)
	})
}
