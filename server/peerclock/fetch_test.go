package peerclock_test

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/peerclock"
)

// What a peer says of itself is bounded, and is taken from a leafd alone, as its clock is.
func TestFetch(t *testing.T) {
	says := func(status int, kind, body string) string {
		return serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" {
				status = http.StatusTeapot
			}
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
	}
	const kind = "application/json; charset=utf-8"
	c := newClient(t, nil)
	addresses := []string{
		startLeafd(t, "127.0.0.1", 0), // which starts: 503
		says(200, kind, `{"status":"ready"}`),
		says(404, kind, `{}`),
		says(200, "text/html", `<html>`),
		says(200, kind, strings.Repeat("x", 2000)),
		"10.0.0.1",
		"169.254.169.254:80",
	}
	answers := c.Fetch(t.Context(), addresses, "/readyz", 1000)
	require.NoError(t, answers[0].Err)
	require.Contains(t, string(answers[0].Body), `"code":"starting"`)
	require.NoError(t, answers[1].Err)
	require.JSONEq(t, `{"status":"ready"}`, string(answers[1].Body))
	for i, why := range map[int]error{2: peerclock.ErrAnswer, 3: peerclock.ErrAnswer, 4: peerclock.ErrAnswer, 5: peerclock.ErrAddress, 6: peerclock.ErrAddress} {
		require.ErrorIs(t, answers[i].Err, why, addresses[i])
		require.Empty(t, answers[i].Body)
	}
	quick := newClient(t, func(c *peerclock.Config) { c.Timeout = 50 * time.Millisecond })
	silent := quick.Fetch(t.Context(), []string{serveBytes(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) })}, "/readyz", 1000)
	require.ErrorIs(t, silent[0].Err, peerclock.ErrUnreachable)
	require.ErrorContains(t, silent[0].Err, "within 50ms")
}
