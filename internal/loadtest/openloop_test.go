package loadtest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStallIsSeen: a server that stalls once keeps all requests waiting that had their
// turn meanwhile, not only the few that it had.
func TestStallIsSeen(t *testing.T) {
	t.Parallel()
	const stall = time.Second
	answer := func(f *fake, w http.ResponseWriter, r *http.Request, nth int64) {
		if nth > 100 && nth <= 104 { // one of each client
			time.Sleep(stall)
		}
		f.growing(w, r, nth)
	}
	_, url := serve(t, answer)
	cfg := config(url)
	cfg.Rate, cfg.Duration = 500, 2500*time.Millisecond
	r := run(t, cfg)
	require.NoError(t, r.Verdict())
	// 1250 turns, 500 of them within the stall: half of those waited for half of
	// it or more, which is a fifth of all.
	require.Equal(t, int64(1250), r.Due)
	require.GreaterOrEqual(t, r.Latency.P90, stall/2)
	require.GreaterOrEqual(t, r.Latency.Max, stall)
}

func TestRateMissed(t *testing.T) {
	t.Parallel()
	_, url := serve(t, func(f *fake, w http.ResponseWriter, r *http.Request, nth int64) {
		time.Sleep(20 * time.Millisecond)
		f.growing(w, r, nth)
	})
	cfg := config(url)
	cfg.Clients, cfg.Rate, cfg.Duration = 1, 1000, 400*time.Millisecond
	r := run(t, cfg)
	require.NoError(t, r.Verdict())
	require.Equal(t, int64(400), r.Due)
	require.LessOrEqual(t, r.Sent, int64(20))
	require.Equal(t, r.Due-r.Sent, r.NotSent)
}
