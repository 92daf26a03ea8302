package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/clocktest"
)

func TestHeartbeat(t *testing.T) {
	c := clocktest.New(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))
	var h clock.Heartbeat
	c.Advance(time.Hour)
	require.Zero(t, h.Overdue(c), "nothing was promised yet")
	h.Expect(c, 3*time.Second)
	c.Advance(3 * time.Second)
	require.Zero(t, h.Overdue(c))
	c.Advance(2 * time.Second)
	require.Equal(t, 2*time.Second, h.Overdue(c))
	h.Expect(c, time.Second)
	require.Zero(t, h.Overdue(c), "it came round")
	c.Advance(time.Minute)
	h.Pause()
	require.Zero(t, h.Overdue(c))
}
