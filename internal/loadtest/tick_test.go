package loadtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTickBeats(t *testing.T) {
	t.Parallel()
	const every = 10 * time.Millisecond
	waits := func(tk *tick, turn time.Duration) bool {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		tk.mu.Lock()
		past := tk.past
		tk.mu.Unlock()
		went := tk.wait(ended, turn)
		require.Equal(t, tk.beatOf(turn) <= past, went)
		return !went
	}
	tk := newTick(every)
	require.Equal(t, int64(0), tk.beatOf(0))
	require.Equal(t, int64(1), tk.beatOf(1))
	require.Equal(t, int64(1), tk.beatOf(every))
	require.Equal(t, int64(2), tk.beatOf(every+1))
	require.True(t, waits(tk, 0), "no beat yet")
	tk.open(0)
	require.False(t, waits(tk, 0))
	require.True(t, waits(tk, every))
	tk.open(1)
	require.False(t, waits(tk, every))
	tk.open(1)
	tk.open(0) // a clock that was read before
	require.False(t, waits(tk, every))

	// A stall: all that waited meanwhile go at once, the others don't.
	for beat := range int64(100) {
		waits(tk, time.Duration(beat)*every)
	}
	tk.open(50)
	require.False(t, waits(tk, 50*every))
	require.True(t, waits(tk, 51*every))
	require.Len(t, tk.gates, 49)
	tk.open(1 << 40)
	require.Empty(t, tk.gates)
}

func TestTickWakesWhoWaits(t *testing.T) {
	t.Parallel()
	tk := newTick(time.Millisecond)
	went := make(chan bool)
	go func() { went <- tk.wait(t.Context(), time.Millisecond) }()
	require.Eventually(t, func() bool {
		tk.mu.Lock()
		defer tk.mu.Unlock()
		return len(tk.gates) == 1
	}, time.Minute, time.Millisecond)
	tk.open(1)
	require.True(t, <-went)
}
