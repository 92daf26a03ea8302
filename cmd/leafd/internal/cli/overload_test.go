package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOverloadSettings(t *testing.T) {
	t.Parallel()
	cfg := captured(t, invocation{})
	require.Equal(t, 10_000, cfg.Limits.MaxInflight)
	require.Equal(t, 500*time.Millisecond, cfg.Limits.QueueWait)
	require.Zero(t, cfg.Limits.RateLimit)
	require.Zero(t, cfg.Limits.RateBurst)
	cfg = captured(t, invocation{args: []string{"--max-inflight=7", "--queue-wait=3ms", "--rate-limit=5"}, env: map[string]string{"LEAFD_RATE_LIMIT_BURST": "9"}})
	live := cfg.Live()
	require.Equal(t, 7, live.MaxInflight)
	require.Equal(t, 3*time.Millisecond, live.QueueWait)
	require.Equal(t, 5, live.RateLimit)
	require.Equal(t, 9, live.RateBurst)
	for flag, says := range map[string]string{
		"--max-inflight=-1":             "0 to 1000000",
		"--queue-wait=2m":               "0s to 1m",
		"--queue-wait=1500us":           "want whole milliseconds",
		"--rate-limit=10000001":         "0 to 10000000",
		"--rate-limit-burst=1000000000": "0 to 10000000",
	} {
		leafd(t, "serve", flag).Failed(t, ExitUsage, says)
	}
}
