package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/clock/clocktest"
)

func TestLoop(t *testing.T) {
	c := clocktest.New(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))
	var l clock.Loop
	c.Advance(time.Hour)
	require.Zero(t, l.Late(c), "nothing was promised yet")
	l.Within(c, 3*time.Second)
	c.Advance(3 * time.Second)
	require.Zero(t, l.Late(c))
	c.Advance(2 * time.Second)
	require.Equal(t, 2*time.Second, l.Late(c))
	l.Within(c, time.Second)
	require.Zero(t, l.Late(c), "it came round")
	c.Advance(time.Minute)
	l.Rest()
	require.Zero(t, l.Late(c))
}
