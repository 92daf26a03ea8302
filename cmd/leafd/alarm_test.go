package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

// An alarm of a running daemon, and the one that it dies of, reach the webhook.
func TestAlarmsReachTheWebhook(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	type notice struct{ Code, Message, Node string }
	notices := make(chan notice, 16)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var n notice
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
			t.Error(err)
		}
		notices <- n
	}))
	defer hook.Close()
	reaches := func(code string) {
		t.Helper()
		select {
		case n := <-notices:
			require.Equal(t, code, n.Code)
			require.Equal(t, "here", n.Node)
		case <-time.After(eventually):
			require.FailNow(t, "no webhook", code)
		}
	}

	args := []string{"--node", "here", "--alarm-webhook", hook.URL}
	l := m.ready(args...)
	l.mustGet("/api/snowflake/get/a")
	m.step(-time.Hour)
	l.awaitStatus("/readyz", http.StatusServiceUnavailable)
	reaches("clock_backwards")
	require.Equal(t, cli.ExitOK, l.stop())

	l = m.start(args...)
	require.Equal(t, cli.ExitClock, l.ExitCode())
	reaches("clock_refused")
	require.Empty(t, notices)
}
