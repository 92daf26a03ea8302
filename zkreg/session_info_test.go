package zkreg

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/zkreg/zookeepertest"
)

// awaitState waits until the session is in state.
func (o opened) awaitState(t testing.TB, state SessionState) SessionInfo {
	t.Helper()
	require.Eventually(t, func() bool { return o.info().State == state }, patience, time.Millisecond, "%s", state)
	return o.info()
}

func TestSessionInfo(t *testing.T) {
	server := zookeepertest.Start(t)
	began := time.Now()
	s := openTest(t, short(20*time.Second, server.Addr()))
	first := s.awaitState(t, SessionConnected)
	require.Equal(t, server.Addr(), first.Server)
	require.Equal(t, s.id(), first.ID)
	require.NotZero(t, first.ID)
	require.Equal(t, s.timeout(), first.Timeout)
	require.EqualValues(t, 1, first.Connects)
	require.Zero(t, first.Expiries)
	require.False(t, first.Since.Before(began))

	server.Kill(t)
	gone := s.awaitState(t, SessionDisconnected)
	require.Equal(t, first.ID, gone.ID, "the session lives on")
	require.True(t, gone.Since.After(first.Since))
	server.Restart(t)
	back := s.awaitState(t, SessionConnected)
	require.EqualValues(t, 2, back.Connects)
	require.Zero(t, back.Expiries)
	require.True(t, back.Since.After(gone.Since))

	s.close()
	require.Equal(t, SessionClosed, s.info().State)
	s.account.turn(SessionConnected) // an event that comes late
	require.Equal(t, SessionClosed, s.info().State)
	require.EqualValues(t, 2, s.info().Connects)
}

func TestSessionInfoWithoutAServer(t *testing.T) {
	s := openTest(t, to("127.0.0.1:1"))
	s.events.await(t, EventServerFailed, 1)
	info := s.info()
	require.Equal(t, SessionConnecting, info.State)
	require.Zero(t, info.ID)
	require.Zero(t, info.Connects)
}

func TestSessionInfoOfRefusedCredentials(t *testing.T) {
	f := newFake(t)
	f.refuseAuth.Store(true)
	s := openTest(t, as(to(f.addr), "leafd", "secret"))
	s.awaitState(t, SessionAuthFailed)
	f.refuseAuth.Store(false)
	require.EqualValues(t, 1, s.awaitState(t, SessionConnected).Connects)
}

// TestSessionStates has every state that the package knows.
func TestSessionStates(t *testing.T) {
	require.ElementsMatch(t, []SessionState{
		SessionConnecting, SessionConnected, SessionDisconnected, SessionExpired, SessionAuthFailed, SessionClosed,
	}, SessionStates())
}
