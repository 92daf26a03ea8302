package loadtest_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/internal/loadtest"
)

// TestUnixSocketAndTLS: the daemon's certificate counts.
func TestUnixSocketAndTLS(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	require.NoError(t, err)
	f := &fake{}
	f.answer = f.growing
	server := &httptest.Server{Listener: ln, Config: &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}}
	server.Start()
	t.Cleanup(server.Close)
	for _, url := range []string{"unix:" + path, "unix://" + path} {
		require.NoError(t, run(t, config(url)).Verdict())
	}

	secure := httptest.NewUnstartedServer(f)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	cfg := config(secure.URL)
	cfg.TLS = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	_, err = loadtest.Run(t.Context(), cfg)
	require.ErrorIs(t, err, loadtest.ErrUnreachable)
	require.ErrorContains(t, err, "certificate")
	cfg.TLS.RootCAs.AddCert(secure.Certificate())
	require.NoError(t, run(t, cfg).Verdict())
}

// TestEveryFormOfAnswer: a proxy's are read as leafd's own is.
func TestEveryFormOfAnswer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		answer func(f *fake, w http.ResponseWriter, r *http.Request, nth int64)
	}{
		{"chunked", func(f *fake, w http.ResponseWriter, r *http.Request, nth int64) {
			w.(http.Flusher).Flush()
			f.growing(w, r, nth)
		}},
		{"connection closed after each", func(f *fake, w http.ResponseWriter, r *http.Request, nth int64) {
			w.Header().Set("Connection", "close")
			f.growing(w, r, nth)
		}},
		{"interim response first", func(f *fake, w http.ResponseWriter, r *http.Request, nth int64) {
			w.WriteHeader(http.StatusEarlyHints)
			f.growing(w, r, nth)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f, url := serve(t, tc.answer)
			cfg := config(url + "/")
			cfg.Batch = 3000
			r := run(t, cfg)
			require.NoError(t, r.Verdict())
			require.Empty(t, r.Failures)
			require.Equal(t, f.given.Load(), r.IDs)
		})
	}
}

func TestSeveralDaemonsAndTags(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	next := map[string]int64{}
	answer := func(_ *fake, w http.ResponseWriter, r *http.Request, _ int64) {
		mu.Lock()
		defer mu.Unlock()
		next[r.URL.Path]++
		_, _ = io.WriteString(w, decimal(next[r.URL.Path]))
	}
	a, urlA := serve(t, answer)
	b, urlB := serve(t, answer)
	cfg := config(urlA, urlB)
	cfg.Mode, cfg.Keys, cfg.Clients = loadtest.Segment, []string{"x", "y/ä"}, 8
	r := run(t, cfg)
	// The tags have the same IDs: that is no repetition.
	require.NoError(t, r.Verdict())
	require.Len(t, next, 2)
	require.Equal(t, next["/api/segment/get/x"], r.Unique[0].IDs)
	require.Equal(t, "x", r.Unique[0].Key)
	require.Equal(t, next["/api/segment/get/y/ä"], r.Unique[1].IDs)
	require.Equal(t, a.requests.Load(), r.Targets[0].Sent)
	require.Equal(t, b.requests.Load(), r.Targets[1].Sent)
	require.Positive(t, r.Targets[0].IDs)
	require.Positive(t, r.Targets[1].IDs)

	// Snowflake IDs must differ regardless of the key and the daemon.
	clear(next)
	cfg = config(urlA, urlB)
	cfg.Keys, cfg.Clients = []string{"x", "y"}, 8
	r = run(t, cfg)
	require.ErrorIs(t, r.Verdict(), loadtest.ErrRepeated)
	require.Len(t, r.Unique, 1)
	require.Equal(t, min(next["/api/snowflake/get/x"], next["/api/snowflake/get/y"]), r.Unique[0].Repeated)
}

func TestProgress(t *testing.T) {
	t.Parallel()
	f, url := serve(t, nil)
	cfg := config(url)
	var looks []loadtest.Progress
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg.Duration, cfg.Every, cfg.Rate = time.Minute, 20*time.Millisecond, 1000
	cfg.Progress = func(p loadtest.Progress) {
		if looks = append(looks, p); len(looks) == 10 {
			cancel()
		}
	}
	r := runUntil(t, ctx, cfg)
	require.NoError(t, r.Verdict())
	require.Less(t, r.Window, cfg.Duration)
	require.Equal(t, f.requests.Load(), r.Sent)
	sum := int64(0)
	for _, p := range looks {
		sum += p.Since.Sent
		require.Equal(t, sum, p.Total.Sent)
		require.Equal(t, p.Since.Answered, p.Latency.Count)
	}
	require.LessOrEqual(t, sum, r.Sent)
}

// A server that closes a connection instead of answering is asked once more, on a new one: a stop is no failure. What meets a
// closed connection again is.
func TestServerGoesAndComesBack(t *testing.T) {
	t.Parallel()
	_, url := serve(t, func(f *fake, w http.ResponseWriter, r *http.Request, nth int64) {
		if nth%10 == 0 || nth > 50 && nth <= 60 {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = c.Close()
			}
			return
		}
		f.growing(w, r, nth)
	})
	cfg := config(url)
	cfg.Clients, cfg.Rate, cfg.Duration = 1, 100, 2*time.Second
	r := run(t, cfg)
	require.NoError(t, r.Verdict())
	require.Greater(t, r.Answered, r.Failed)
	require.Less(t, r.Failed, int64(11))
	for _, f := range r.Failures {
		require.Zero(t, f.Status)
		require.Equal(t, "connection_closed", f.Code)
	}
}

// Another load than requests for IDs has its turns, and is measured, alike.
func TestLoadOfAnotherKind(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	r := run(t, loadtest.Config{Clients: 4, Rate: 100, Duration: 500 * time.Millisecond, Timeout: time.Second, Ask: func(context.Context) error {
		if n.Add(1)%5 == 0 {
			return context.DeadlineExceeded
		}
		return nil
	}})
	require.Equal(t, r.Sent, n.Load())
	require.Equal(t, r.Sent/5, r.Failed)
	require.Equal(t, "timeout", r.Failures[0].Code)
	require.ErrorIs(t, (&loadtest.Result{}).Verdict(), loadtest.ErrFailed)
}
