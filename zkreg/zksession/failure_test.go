package zksession

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/zookeepertest"
)

// ephemeral creates a node that goes with the session.
func ephemeral(t testing.TB, s *Session, path string) {
	t.Helper()
	_, err := create(within(t, patience), s, path, nil, zk.FlagEphemeral)
	require.NoError(t, err)
}

func short(d time.Duration, servers ...string) Config {
	return Config{Servers: servers, Timeout: d}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	s := openTest(t, to("127.0.0.1:1"))
	require.ErrorContains(t, awaitFailure(t, s, "127.0.0.1:1"), "refused")
	_, err := create(within(t, 200*time.Millisecond), s, "/x", nil, 0)
	require.ErrorIs(t, err, errUnreachable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "refused")
	require.ErrorContains(t, err, "create /x")
	require.ErrorContains(t, err, "servers 127.0.0.1:1")
	info := s.Info()
	require.Equal(t, Info{State: Connecting, Since: info.Since, Timeout: usualTimeout, Failure: info.Failure}, info)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(s.Close)
	}
	wg.Wait()
	_, _, err = s.Get(within(t, patience), "/x")
	require.ErrorIs(t, err, errUnreachable)
	require.ErrorIs(t, err, errClosed)
}

// TestServerKilledAndRestarted: the same session goes on, and Info has each state of it.
func TestServerKilledAndRestarted(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Start(t)
	began := time.Now()
	s := openTest(t, short(20*time.Second, server.Addr()))
	ephemeral(t, s, "/mine")
	first := s.Info()
	require.False(t, first.Since.Before(began))
	require.NotZero(t, s.Info().ID)
	require.Equal(t, Info{State: Connected, Server: server.Addr(), ID: s.Info().ID, Since: first.Since, Timeout: s.Info().Timeout, Connects: 1}, first)

	server.Kill(t)
	gone := await(t, s, disconnected)
	require.Error(t, gone.Failure)
	require.Equal(t, first.ID, gone.ID, "the session lives on")
	require.True(t, gone.Since.After(first.Since))
	_, err := create(within(t, 100*time.Millisecond), s, "/other", nil, 0)
	require.ErrorIs(t, err, errUnreachable)

	server.Restart(t)
	_, stat, err := s.Get(within(t, patience), "/mine")
	require.NoError(t, err)
	require.Equal(t, first.ID, stat.EphemeralOwner)
	found, _, err := s.Exists(within(t, patience), "/other")
	require.NoError(t, err)
	require.False(t, found, "a request that was unsent was done")
	back := s.Info()
	require.True(t, back.Since.After(gone.Since))
	first.Since, first.Connects = back.Since, 2
	require.Equal(t, first, back)

	s.Close()
	s.state(zk.StateHasSession) // an event that comes late
	require.Equal(t, Closed, s.Info().State)
	require.EqualValues(t, 2, s.Info().Connects)
	require.Zero(t, s.Info().ID)
}

// TestOneOfThreeHangs, and then the leader dies: the session goes on elsewhere.
func TestOneOfThreeHangs(t *testing.T) {
	t.Parallel()
	e := zookeepertest.StartEnsemble(t, 3)
	s := openTest(t, short(30*time.Second, e.Addrs()...)) // an election may take long
	ephemeral(t, s, "/mine")
	id := s.Info().ID
	at := s.Info().Server
	for i, address := range e.Addrs() {
		if address == at {
			e.Servers[i].Pause(t)
			moved := awaitConnects(t, s, 2)
			require.NotEqual(t, at, moved.Server)
			require.Equal(t, id, moved.ID)
			require.NoError(t, s.Sync(within(t, patience), "/"))
			e.Servers[i].Resume(t)
		}
	}
	e.Serving(t)
	e.Servers[e.Leader(t)].Kill(t)
	require.Eventually(t, func() bool { // a write is sent once, and a new leader steps down where the follower comes late
		_, err := set(within(t, patience), s, "/mine", []byte("x"), -1)
		return err == nil
	}, patience, time.Millisecond)
	_, stat, err := s.Get(within(t, patience), "/mine")
	require.NoError(t, err)
	require.Equal(t, id, stat.EphemeralOwner)
	require.Zero(t, s.Info().Expiries)
}
