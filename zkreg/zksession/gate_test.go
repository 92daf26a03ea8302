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

// TestAtMostMaxCalls are outstanding, those that nobody waits for among them (zksession.S4).
func TestAtMostMaxCalls(t *testing.T) {
	s := unopened(t, to("a:1"))
	s.state(zk.StateHasSession)
	for range maxCalls {
		_, err := s.enter(t.Context(), call{})
		require.NoError(t, err)
	}
	_, err := s.enter(within(t, 20*time.Millisecond), call{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	waits := make(chan error)
	go func() { _, err := s.enter(within(t, patience), call{}); waits <- err }()
	s.count(-1, -1)
	require.NoError(t, <-waits, "a place became free")
	s.count(0, 1-maxCalls)
	_, err = s.enter(within(t, 20*time.Millisecond), call{})
	require.ErrorIs(t, err, context.DeadlineExceeded, "somebody waits for one of them")
	s.count(0, -1)
	_, err = s.enter(within(t, patience), call{})
	require.ErrorIs(t, err, errHung)
	require.False(t, s.drained(0))
	s.count(-maxCalls, 0)
	require.True(t, s.drained(0))
}

// TestCredentialsOnThisConnection (zksession.S3): those that were taken on the last one may
// not have been sent on this one.
func TestCredentialsOnThisConnection(t *testing.T) {
	s := unopened(t, as(to("a:1"), "leafd", "secret"))
	shut := func(c call) {
		t.Helper()
		_, err := s.enter(within(t, 20*time.Millisecond), c)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	through := func(c call) uint64 {
		t.Helper()
		connection, err := s.enter(t.Context(), c)
		require.NoError(t, err)
		s.count(-1, -1)
		return connection
	}
	shut(call{credentials: true})
	s.state(zk.StateHasSession)
	old := through(call{credentials: true})
	s.state(zk.StateDisconnected)
	require.Equal(t, Connecting, s.Info().State, "nobody was told of it")
	s.state(zk.StateHasSession)
	require.False(t, s.accepted(old))
	shut(call{})
	require.Zero(t, s.Connection())
	require.True(t, s.accepted(through(call{credentials: true})))
	last := through(call{})
	require.Equal(t, last, s.Connection())
	require.Error(t, (&wire{session: s, greeted: true}).failed(io.EOF))
	shut(call{})
	s.state(zk.StateDisconnected)
	require.Equal(t, Disconnected, s.Info().State)
	s.state(zk.StateHasSession)
	require.Greater(t, through(call{}), last, "from the second connection on go-zookeeper sends them")
	s.cancel()
	_, err := s.enter(t.Context(), call{})
	require.ErrorIs(t, err, errClosed)
	require.Zero(t, s.Connection())
}
