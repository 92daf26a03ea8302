//go:build long

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/webtest"
)

// TestDashboardIsClosedToOtherPages: the page of another site, in a real browser that
// reaches leafd, neither reads what leafd tells nor shows it in a frame.
func TestDashboardIsClosedToOtherPages(t *testing.T) {
	t.Parallel()
	l := newMachine(t).start()
	l.awaitStatus("/readyz", http.StatusOK)
	browser, view := webtest.Open(t), webtest.View{Width: 800, Height: 600}

	// The name of a page's server, pointed at leafd after the page was loaded (DNS rebinding).
	_, port, _ := strings.Cut(strings.TrimPrefix(l.url, "http://"), ":")
	for _, path := range []string{"/db", "/cache", "/api/workers", "/api/overview"} {
		p := browser.Page("http://evil.test:"+port+path, view)
		require.Contains(t, webtest.Eval[string](p, `document.body.innerText`), "host_refused", path)
	}

	for _, path := range []string{"/", "/db", "/cache"} {
		framing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `<!doctype html><link rel="icon" href="data:,"><iframe src="%s%s"></iframe>`, l.url, path)
		}))
		p := browser.Page(framing.URL, view)
		require.Eventually(t, func() bool {
			return strings.Contains(strings.Join(p.Complaints(), "\n"), "frame-ancestors")
		}, time.Minute, 10*time.Millisecond, path)
		framing.Close()
	}
}
