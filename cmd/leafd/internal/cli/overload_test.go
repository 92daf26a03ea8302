package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRateLimitSetting(t *testing.T) {
	t.Parallel()
	require.Zero(t, captured(t, invocation{}).Limits.RateLimit)
	require.Equal(t, 5, captured(t, invocation{args: []string{"--rate-limit=5"}}).Live().RateLimit)
	leafd(t, "serve", "--rate-limit=10000001").Failed(t, ExitUsage, "0 to 10000000")
}
