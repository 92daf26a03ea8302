package zksession

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// state lets s see what go-zookeeper says of the connection.
func (s *Session) state(state zk.State) { s.observe(zk.Event{Type: zk.EventSession, State: state}) }

// TestAtMostMaxCalls are outstanding, those that no call waits for among them.
func TestAtMostMaxCalls(t *testing.T) {
	s := unopened(t, to("a:1"))
	s.state(zk.StateHasSession)
	for range maxCalls {
		require.NoError(t, s.enter(t.Context(), call{}))
	}
	require.ErrorIs(t, s.enter(within(t, 20*time.Millisecond), call{}), context.DeadlineExceeded)
	waits := make(chan error)
	go func() { waits <- s.enter(within(t, patience), call{}) }()
	s.leave()
	require.NoError(t, <-waits, "a place became free")
	require.False(t, s.drained(0))
	for range maxCalls {
		s.leave()
	}
	require.True(t, s.drained(0))
}

// TestOneConnection: a call enters while a connection is open, and each has another number.
func TestOneConnection(t *testing.T) {
	s := unopened(t, to("a:1"))
	w := &wire{session: s, greeted: true}
	shut := func() {
		t.Helper()
		require.ErrorIs(t, s.enter(within(t, 20*time.Millisecond), call{}), context.DeadlineExceeded)
		require.Zero(t, s.Connection())
	}
	through := func() uint64 {
		t.Helper()
		require.NoError(t, s.enter(t.Context(), call{}))
		s.leave()
		return s.Connection()
	}
	shut()
	s.state(zk.StateDisconnected)
	require.Equal(t, Connecting, s.Info().State, "no event told of it")
	require.ErrorIs(t, w.failed(zk.ErrAuthFailed), zk.ErrAuthFailed)
	shut()
	require.Equal(t, AuthFailed, s.Info().State)
	s.state(zk.StateHasSession)
	last := through()
	require.Error(t, w.failed(io.EOF))
	shut()
	s.state(zk.StateDisconnected)
	require.Equal(t, Disconnected, s.Info().State)
	s.state(zk.StateHasSession)
	require.Greater(t, through(), last)
	require.ErrorIs(t, s.enter(t.Context(), call{on: last}), ErrOtherConnection)
	s.cancel()
	require.ErrorIs(t, s.enter(t.Context(), call{}), errClosed)
	require.Zero(t, s.Connection())
}
