package zksession

import (
	"context"
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
