package zksession

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/zkreg/zookeepertest"
)

// until calls f, a few seconds each time, until it succeeds.
func until(t testing.TB, f func(ctx context.Context) error) {
	t.Helper()
	var err error
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err = f(ctx)
		cancel()
		if err == nil {
			return
		}
		require.ErrorIs(t, err, ErrUnreachable)
	}
	require.NoError(t, err)
}

// ephemeral creates a node that goes with the session.
func ephemeral(t testing.TB, s *Session, path string) {
	t.Helper()
	_, err := s.Create(within(t, patience), path, nil, zk.FlagEphemeral)
	require.NoError(t, err)
}

func short(d time.Duration, servers ...string) Config {
	return Config{Servers: servers, Timeout: d}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	s := openTest(t, to("127.0.0.1:1"))
	failed := s.events.await(t, EventServerFailed, 1)
	require.ErrorContains(t, failed.Err, "refused")
	ctx := within(t, 200*time.Millisecond)
	_, err := s.Create(ctx, "/x", nil, 0)
	require.ErrorIs(t, err, ErrUnreachable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "refused")
	require.ErrorContains(t, err, "create /x")
	require.ErrorContains(t, err, "servers 127.0.0.1:1")
	require.True(t, Unsent(err))
	require.Zero(t, s.ID())
	s.Close()
	s.Close()
	_, _, err = s.Get(within(t, patience), "/x")
	require.ErrorIs(t, err, ErrUnreachable)
	require.ErrorIs(t, err, errClosed)
	require.Len(t, s.events.of(EventServerFailed), 1, "told once, however often it was tried")
}

// TestServerKilledAndRestarted: the same session goes on.
func TestServerKilledAndRestarted(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Start(t)
	s := openTest(t, to(server.Addr()))
	ephemeral(t, s.Session, "/mine")
	id := s.ID()
	server.Kill(t)
	gone := s.events.await(t, EventDisconnected, 1)
	require.Error(t, gone.Err)
	require.Equal(t, id, gone.Session)
	_, err := s.Create(within(t, 100*time.Millisecond), "/other", nil, 0)
	require.ErrorIs(t, err, ErrUnreachable)
	require.True(t, Unsent(err))
	server.Restart(t)
	_, stat, err := s.Get(within(t, patience), "/mine")
	require.NoError(t, err)
	require.Equal(t, id, stat.EphemeralOwner)
	require.Equal(t, id, s.ID())
	found, _, err := s.Exists(within(t, patience), "/other")
	require.NoError(t, err)
	require.False(t, found, "a request that was unsent was done")
	require.Empty(t, s.events.of(EventExpired))
}

// TestServerHangs with calls pending (zksession.S1, zksession.S4, zksession.S6), and
// nothing piles up.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Start(t)
	s := openTest(t, short(6*time.Second, server.Addr()))
	require.NoError(t, s.Sync(within(t, patience), "/"))
	server.Pause(t)
	var wg sync.WaitGroup
	errs := make(chan error, 100)
	for i := range cap(errs) {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(100+i)*time.Millisecond)
			defer cancel()
			_, err := s.Create(ctx, "/n"+strconv.Itoa(i), nil, 0)
			errs <- err
		})
	}
	wg.Wait()
	for range cap(errs) {
		err := <-errs
		require.ErrorIs(t, err, ErrUnreachable)
		if !errors.Is(err, errHung) {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
	}
	_, err := s.Create(within(t, patience), "/late", nil, 0)
	require.ErrorIs(t, err, errHung, "all places are taken by requests that nobody waits for")
	require.True(t, Unsent(err))
	s.gate.mu.Lock()
	require.LessOrEqual(t, s.gate.calls, maxCalls)
	s.gate.mu.Unlock()
	s.events.await(t, EventDisconnected, 1)
	server.Resume(t)
	until(t, func(ctx context.Context) error { return s.Sync(ctx, "/") })
	s.gate.mu.Lock()
	require.Zero(t, s.gate.calls)
	require.Zero(t, s.gate.abandoned)
	s.gate.mu.Unlock()
	names, _, err := s.Children(within(t, patience), "/")
	require.NoError(t, err)
	require.LessOrEqual(t, len(names), maxCalls+1, "requests that were never sent were done")
}

// TestCloseWhileServerHangs: close returns, and leaves no goroutine behind, which
// TestMain sees to.
func TestCloseWhileServerHangs(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Start(t)
	for _, connected := range []bool{true, false} {
		s := openTest(t, short(40*time.Second, server.Addr()))
		if connected {
			require.NoError(t, s.Sync(within(t, patience), "/"))
		}
		server.Pause(t)
		pending := make(chan error, 1)
		go func() { _, _, err := s.Get(within(t, patience), "/"); pending <- err }()
		if connected {
			require.Eventually(t, func() bool { return !s.gate.drained(0) }, patience, time.Millisecond)
		}
		s.Close()
		require.ErrorIs(t, <-pending, ErrUnreachable)
		select {
		case _, open := <-s.ended:
			require.False(t, open)
		default:
			require.Fail(t, "go-zookeeper's goroutines are still there")
		}
		server.Resume(t)
	}
}

func TestCloseEndsTheSession(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	root := server.NewRoot(t)
	s := openTest(t, short(40*time.Second, server.Addr()))
	ephemeral(t, s.Session, root)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(s.Close)
	}
	wg.Wait()
	require.Zero(t, s.ID())
	found, _, err := server.Conn(t).Exists(root)
	require.NoError(t, err)
	require.False(t, found)
	_, err = s.Create(within(t, patience), root, nil, 0)
	require.ErrorIs(t, err, errClosed)
	require.True(t, Unsent(err))
}

// TestOneOfThreeHangs, and then the leader dies: the session goes on elsewhere.
func TestOneOfThreeHangs(t *testing.T) {
	t.Parallel()
	e := zookeepertest.StartEnsemble(t, 3)
	s := openTest(t, short(10*time.Second, e.Addrs()...))
	ephemeral(t, s.Session, "/mine")
	id := s.ID()
	at := s.events.await(t, EventConnected, 1).Server
	for i, address := range e.Addrs() {
		if address == at {
			e.Pause(t, i)
			moved := s.events.await(t, EventConnected, 2)
			require.NotEqual(t, at, moved.Server)
			require.Equal(t, id, moved.Session)
			until(t, func(ctx context.Context) error { return s.Sync(ctx, "/") })
			e.Resume(t, i)
		}
	}
	e.Serving(t)
	e.Kill(t, e.Leader(t))
	until(t, func(ctx context.Context) error { _, err := s.Set(ctx, "/mine", []byte("x"), -1); return err })
	_, stat, err := s.Get(within(t, patience), "/mine")
	require.NoError(t, err)
	require.Equal(t, id, stat.EphemeralOwner)
	require.Empty(t, s.events.of(EventExpired))
}

// TestBlackhole that is shorter than the session: it goes on; and one that is
// longer: another one is opened.
func TestBlackhole(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	proxy, root := zookeepertest.NewProxy(t, server.Addr()), server.NewRoot(t)
	s := openTest(t, short(5*time.Second, proxy.Addr()))
	ephemeral(t, s.Session, root)
	first := s.ID()

	proxy.Blackhole(t, true)
	_, err := s.Set(within(t, 200*time.Millisecond), root, []byte("x"), -1)
	require.ErrorIs(t, err, ErrUnreachable)
	require.False(t, Unsent(err), "it was sent, as far as anybody can know")
	proxy.Blackhole(t, false)
	until(t, func(ctx context.Context) error { return s.Sync(ctx, root) })
	require.Equal(t, first, s.ID())

	observer := server.Conn(t)
	proxy.Blackhole(t, true)
	require.Eventually(t, func() bool {
		found, _, err := observer.Exists(root)
		return err == nil && !found
	}, patience, 10*time.Millisecond)
	proxy.Blackhole(t, false)
	expired := s.events.await(t, EventExpired, 1)
	require.Equal(t, first, expired.Session)
	until(t, func(ctx context.Context) error { return s.Sync(ctx, "/") })
	require.NotEqual(t, first, s.ID())
	require.NotZero(t, s.ID())
	ephemeral(t, s.Session, root)
	_, stat, err := s.Get(within(t, patience), root)
	require.NoError(t, err)
	require.Equal(t, s.ID(), stat.EphemeralOwner)
}

// TestServerLosesItsData: a server that lost its disk doesn't take back a session that
// saw more than it knows. Another one is opened once that session is over (zksession.S7).
func TestServerLosesItsData(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Start(t)
	s := openTest(t, short(2*time.Second, server.Addr()))
	for i := range 5 {
		_, err := s.Create(within(t, patience), "/n"+strconv.Itoa(i), nil, 0)
		require.NoError(t, err)
	}
	first := s.ID()
	server.Wipe(t)
	until(t, func(ctx context.Context) error { return s.Sync(ctx, "/") })
	names, _, err := s.Children(within(t, patience), "/")
	require.NoError(t, err)
	require.Equal(t, []string{"zookeeper"}, names)
	require.NotEqual(t, first, s.ID())
	require.Equal(t, first, s.events.await(t, EventExpired, 1).Session)
	info := s.Info()
	require.Equal(t, Connected, info.State)
	require.Equal(t, s.ID(), info.ID)
	require.EqualValues(t, 1, info.Expiries)
}

// TestEnsembleLosesItsData, as one server does.
func TestEnsembleLosesItsData(t *testing.T) {
	t.Parallel()
	e := zookeepertest.StartEnsemble(t, 3)
	s := openTest(t, short(3*time.Second, e.Addrs()...))
	for i := range 5 {
		_, err := s.Create(within(t, patience), "/n"+strconv.Itoa(i), nil, 0)
		require.NoError(t, err)
	}
	e.Wipe(t)
	until(t, func(ctx context.Context) error { _, err := s.Create(ctx, "/again", nil, 0); return err })
	s.events.await(t, EventExpired, 1)
}
