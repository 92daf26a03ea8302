package zksession

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestGateHoldsAtMostMaxCalls, those that nobody waits for among them (zksession.S4).
func TestGateHoldsAtMostMaxCalls(t *testing.T) {
	g := newGate(true)
	g.connected()
	tickets := make([]*ticket, maxCalls)
	for i := range tickets {
		var err error
		tickets[i], err = g.enter(t.Context())
		require.NoError(t, err)
	}
	_, err := g.enter(within(t, 20*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	waits := make(chan error)
	go func() { _, err := g.enter(within(t, patience)); waits <- err }()
	g.leave(tickets[0])
	require.NoError(t, <-waits, "a place became free")
	for _, ticket := range tickets {
		g.abandon(ticket) // one of them has left already
	}
	require.Equal(t, maxCalls-1, g.abandoned)
	last, err := g.enter(within(t, 20*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded, "somebody waits for one of them")
	require.Nil(t, last)
	for _, ticket := range tickets[1:] {
		g.leave(ticket)
	}
	require.Zero(t, g.abandoned)
	require.Equal(t, 1, g.calls)
	require.False(t, g.drained(0))
}

// TestGateWantsTheCredentialsOnThisConnection (zksession.S3): those that were taken on the
// last one may not have been sent on this one.
func TestGateWantsTheCredentialsOnThisConnection(t *testing.T) {
	g := newGate(false)
	require.False(t, g.connected())
	old, ok := g.enterUnauthenticated()
	require.True(t, ok)
	require.False(t, g.disconnected(), "nobody was told of it")
	require.False(t, g.connected())
	require.False(t, g.authenticate(old))
	g.leave(old)
	_, err := g.enter(within(t, 20*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	current, ok := g.enterUnauthenticated()
	require.True(t, ok)
	require.True(t, g.authenticate(current))
	g.leave(current)
	through, err := g.enter(t.Context())
	require.NoError(t, err)
	g.leave(through)
	g.broken()
	_, err = g.enter(within(t, 20*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, g.disconnected())
	require.True(t, g.connected(), "from the second connection on go-zookeeper sends them")
	g.close()
	_, err = g.enter(t.Context())
	require.ErrorIs(t, err, errClosed)
	_, ok = g.enterUnauthenticated()
	require.False(t, ok)
}
