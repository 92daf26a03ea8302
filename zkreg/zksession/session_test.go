package zksession

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/zookeepertest"
)

// await waits until is holds of what the session tells.
func await(t testing.TB, s *Session, is func(Info) bool) (info Info) {
	t.Helper()
	require.Eventually(t, func() bool { info = s.Info(); return is(info) }, patience, 5*time.Millisecond)
	return info
}

// awaitConnects waits until the session has become connected n times.
func awaitConnects(t testing.TB, s *Session, n uint64) Info {
	t.Helper()
	return await(t, s, func(i Info) bool { return i.State == Connected && i.Connects >= n })
}

// awaitFailure waits for what goes wrong with server, and returns it.
func awaitFailure(t testing.TB, s *Session, server string) error {
	t.Helper()
	failure := await(t, s, func(i Info) bool { return i.Failure != nil }).Failure
	var of *ServerError
	require.ErrorAs(t, failure, &of)
	require.Equal(t, server, of.Server)
	return failure
}

func disconnected(i Info) bool { return i.State == Disconnected }

// errUnreachable is what a call of a test returns that no server answered in time.
var errUnreachable = errors.New("unreachable")

// openTest opens a session that is closed with the test.
func openTest(t testing.TB, cfg Config) *Session {
	t.Helper()
	cfg.Timeout, cfg.Unreachable = cmp.Or(cfg.Timeout, usualTimeout), errUnreachable
	s, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// proxied opens a session over a line that fails when it is told to, and creates root.
func proxied(t testing.TB, cfg Config) (s *Session, line *zookeepertest.Proxy, root string) {
	t.Helper()
	server := zookeepertest.Shared(t)
	line, root = zookeepertest.NewProxy(t, server.Addr()), server.NewRoot(t)
	cfg.Servers = []string{line.Addr()}
	s = openTest(t, cfg)
	_, err := create(within(t, patience), s, root, nil, 0)
	require.NoError(t, err)
	return s, line, root
}

// unopened returns a session that is never connected.
func unopened(t testing.TB, cfg Config) *Session {
	t.Helper()
	cfg.Unreachable = errUnreachable
	s := newSession(cfg)
	t.Cleanup(s.cancel)
	return s
}

// usualTimeout is that of a session where it doesn't matter.
const usualTimeout = 10 * time.Second

func to(servers ...string) Config { return Config{Servers: servers, Timeout: usualTimeout} }

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// requireSame reads a node back.
func requireData(t testing.TB, s *Session, path, want string) {
	t.Helper()
	data, _, err := s.Get(within(t, patience), path)
	require.NoError(t, err)
	require.Equal(t, want, string(data))
}

func create(ctx context.Context, s *Session, path string, data []byte, flags int32) (string, error) {
	r, err := s.Multi(ctx, 0, &zk.CreateRequest{Path: path, Data: data, Flags: flags})
	if err != nil {
		return "", err
	}
	return r[0].String, nil
}

func set(ctx context.Context, s *Session, path string, data []byte, version int32) (*zk.Stat, error) {
	r, err := s.Multi(ctx, 0, &zk.SetDataRequest{Path: path, Data: data, Version: version})
	if err != nil {
		return nil, err
	}
	return r[0].Stat, nil
}

// What go-zookeeper refuses by itself, and what a transaction was refused for, come through as they are.
func TestErrorsOfRequests(t *testing.T) {
	t.Parallel()
	s := openTest(t, to(zookeepertest.Shared(t).Addr()))
	ctx := within(t, patience)
	for want, do := range map[error]func() error{
		zk.ErrInvalidPath:  func() error { _, _, err := s.Get(ctx, "x"); return err },
		zk.ErrShortBuffer:  func() error { _, err := set(ctx, s, "/", make([]byte, 2<<20), -1); return err },
		zk.ErrBadArguments: func() error { _, err := s.Multi(ctx, 0, "nonsense"); return err },
		zk.ErrNodeExists: func() error {
			_, err := s.Multi(ctx, 0, &zk.CreateRequest{Path: "/zookeeper"}, &zk.DeleteRequest{Path: "/none"})
			require.ErrorContains(t, err, "create /zookeeper")
			return err
		},
	} {
		err := do()
		require.ErrorIs(t, err, want)
		require.NotErrorIs(t, err, errUnreachable)
		require.NotErrorIs(t, err, ErrOtherConnection)
	}
}
