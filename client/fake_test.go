package client

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait on a condition; only a broken program reaches it.
const patience = 30 * time.Second

// fake is a daemon that issues 1, 2, 3, …, or does what a test tells it to.
type fake struct {
	*httptest.Server

	mu      sync.Mutex
	last    int64              // mu protects
	issued  map[int64]struct{} // mu protects; IDs in good responses
	targets []string           // mu protects; of the requests for IDs
	max     int                // mu protects; largest n; 0: any
	// instead answers a request in place of the daemon; it returns false to let it.
	instead func(w http.ResponseWriter, r *http.Request, n int) bool // mu protects
}

func newFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{issued: make(map[int64]struct{})}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) do(instead func(w http.ResponseWriter, r *http.Request, n int) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instead = instead
}

// first makes the fake do something else for its first request only.
func (f *fake) first(handler func(w http.ResponseWriter, n int)) {
	var begun atomic.Bool
	f.do(func(w http.ResponseWriter, r *http.Request, n int) bool {
		if r.URL.Path == "/readyz" || begun.Swap(true) {
			return false
		}
		handler(w, n)
		return true
	})
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.URL.Query().Get("n"))
	f.mu.Lock()
	instead, limit := f.instead, f.max
	if r.URL.Path != "/readyz" {
		f.targets = append(f.targets, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Cache-Control"))
	}
	f.mu.Unlock()
	switch {
	case instead != nil && instead(w, r, n):
	case r.URL.Path == "/readyz":
	case limit > 0 && n > limit:
		refuse(w, http.StatusBadRequest, "bad_count", 0)
	default:
		_, _ = io.WriteString(w, f.issue(n)) // the client is gone
	}
}

// issue returns the body of a response with n IDs, in two ranges where they are many.
func (f *fake) issue(n int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := f.last + 1; id <= f.last+int64(n); id++ {
		f.issued[id] = struct{}{}
	}
	first := f.last + 1
	f.last += int64(n)
	if n < 10 {
		return fmt.Sprintf("%d-%d\n", first, f.last)
	}
	return fmt.Sprintf("%d-%d\n%d-%d\n", first, first+3, first+4, f.last)
}

func (f *fake) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.targets...)
}

func refuse(w http.ResponseWriter, status int, code string, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"code":%q,"message":"a message"}`, code)
}

// failures collects the errors that Config.Failed is called with.
type failures struct {
	mu  sync.Mutex
	all []error
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, err)
}

func (f *failures) list() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]error(nil), f.all...)
}

func newClient(t testing.TB, change func(*Config), fakes ...*fake) *Client {
	t.Helper()
	cfg := Config{RequestTimeout: DefaultMaxAge} // a busy machine is no failure
	for _, f := range fakes {
		cfg.Addresses = append(cfg.Addresses, f.URL)
	}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// deadAddress is one that nothing listens on.
func deadAddress(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	return "http://" + ln.Addr().String()
}
