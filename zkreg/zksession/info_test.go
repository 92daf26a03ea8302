package zksession

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/zkreg/zookeepertest"
)

// awaitState waits until the session is in state.
func (o opened) awaitState(t testing.TB, state State) Info {
	t.Helper()
	require.Eventually(t, func() bool { return o.Info().State == state }, patience, time.Millisecond, "%s", state)
	return o.Info()
}

func TestSessionInfo(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Start(t)
	began := time.Now()
	s := openTest(t, short(20*time.Second, server.Addr()))
	first := s.awaitState(t, Connected)
	require.Equal(t, server.Addr(), first.Server)
	require.Equal(t, s.ID(), first.ID)
	require.NotZero(t, first.ID)
	require.Equal(t, s.Timeout(), first.Timeout)
	require.EqualValues(t, 1, first.Connects)
	require.Zero(t, first.Expiries)
	require.False(t, first.Since.Before(began))

	server.Kill(t)
	gone := s.awaitState(t, Disconnected)
	require.Equal(t, first.ID, gone.ID, "the session lives on")
	require.True(t, gone.Since.After(first.Since))
	server.Restart(t)
	back := s.awaitState(t, Connected)
	require.EqualValues(t, 2, back.Connects)
	require.Zero(t, back.Expiries)
	require.True(t, back.Since.After(gone.Since))

	s.Close()
	require.Equal(t, Closed, s.Info().State)
	s.account.turn(Connected) // an event that comes late
	require.Equal(t, Closed, s.Info().State)
	require.EqualValues(t, 2, s.Info().Connects)
}

func TestSessionInfoWithoutAServer(t *testing.T) {
	t.Parallel()
	s := openTest(t, to("127.0.0.1:1"))
	s.events.await(t, EventServerFailed, 1)
	info := s.Info()
	require.Equal(t, Connecting, info.State)
	require.Zero(t, info.ID)
	require.Zero(t, info.Connects)
}

func TestSessionInfoOfRefusedCredentials(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.refuseAuth.Store(true)
	s := openTest(t, as(to(f.addr), "leafd", "secret"))
	s.awaitState(t, AuthFailed)
	f.refuseAuth.Store(false)
	require.EqualValues(t, 1, s.awaitState(t, Connected).Connects)
}

// TestSessionStates has every state that the package knows.
func TestSessionStates(t *testing.T) {
	require.ElementsMatch(t, []State{
		Connecting, Connected, Disconnected, Expired, AuthFailed, Closed,
	}, States())
}
