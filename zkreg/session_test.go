package zkreg

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zookeepertest"
)

// recorder keeps the events of a session.
type recorder struct {
	mu     sync.Mutex
	events []Event
}

func (r *recorder) notify(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// of returns the events of kind so far.
func (r *recorder) of(kind EventKind) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var events []Event
	for _, e := range r.events {
		if e.Kind == kind {
			events = append(events, e)
		}
	}
	return events
}

// await waits for the n-th event of kind.
func (r *recorder) await(t testing.TB, kind EventKind, n int) Event {
	t.Helper()
	require.Eventually(t, func() bool { return len(r.of(kind)) >= n }, patience, 5*time.Millisecond, "%v", kind)
	return r.of(kind)[n-1]
}

// opened is a session of a test.
type opened struct {
	*session
	events *recorder
}

// openTest opens a session that is closed with the test.
func openTest(t testing.TB, cfg sessionConfig) opened {
	t.Helper()
	events := &recorder{}
	cfg.Notify = events.notify
	s, err := openSession(cfg)
	require.NoError(t, err)
	t.Cleanup(s.close)
	return opened{s, events}
}

func to(servers ...string) sessionConfig { return sessionConfig{Servers: servers} }

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// requireSame reads a node back.
func requireData(t testing.TB, s *session, path, want string) {
	t.Helper()
	data, _, err := s.get(within(t, patience), path)
	require.NoError(t, err)
	require.Equal(t, want, string(data))
}

func TestCalls(t *testing.T) {
	server := zookeepertest.Shared(t)
	s, root := openTest(t, to(server.Addr())), server.NewRoot(t)
	ctx := within(t, patience)

	found, stat, err := s.exists(ctx, root)
	require.NoError(t, err)
	require.False(t, found)
	require.Nil(t, stat)
	created, err := s.create(ctx, root, []byte("a"), 0)
	require.NoError(t, err)
	require.Equal(t, root, created)
	created, err = s.create(ctx, root+"/n-", nil, zk.FlagSequence)
	require.NoError(t, err)
	require.Equal(t, root+"/n-0000000000", created)
	found, stat, err = s.exists(ctx, root)
	require.NoError(t, err)
	require.True(t, found)
	require.Zero(t, stat.Version)
	stat, err = s.set(ctx, root, []byte("b"), 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, stat.Version)
	require.NoError(t, s.sync(ctx, root))
	requireData(t, s.session, root, "b")
	names, stat, err := s.children(ctx, root)
	require.NoError(t, err)
	require.Equal(t, []string{"n-0000000000"}, names)
	require.EqualValues(t, 1, stat.NumChildren)
	require.NoError(t, s.remove(ctx, created, 0))
	require.NoError(t, s.remove(ctx, root, -1))
	require.NotZero(t, s.id())
	require.Equal(t, defaultTimeout, s.timeout())
	connected := s.events.await(t, EventConnected, 1)
	require.Equal(t, Event{Kind: EventConnected, Server: server.Addr(), Session: s.id()}, connected)
}

// TestErrorsAboutNodes come through as ZooKeeper has them, and are not ErrUnreachable.
func TestErrorsAboutNodes(t *testing.T) {
	server := zookeepertest.Shared(t)
	s, root := openTest(t, to(server.Addr())), server.NewRoot(t)
	ctx := within(t, patience)
	_, err := s.create(ctx, root, nil, 0)
	require.NoError(t, err)
	_, err = s.create(ctx, root+"/child", nil, 0)
	require.NoError(t, err)
	_, err = s.create(ctx, root+"/mine", nil, zk.FlagEphemeral)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		do   func() error
		want error
	}{
		"get nothing":      {func() error { _, _, err := s.get(ctx, root+"/none"); return err }, zk.ErrNoNode},
		"children of none": {func() error { _, _, err := s.children(ctx, root+"/none"); return err }, zk.ErrNoNode},
		"set nothing":      {func() error { _, err := s.set(ctx, root+"/none", nil, -1); return err }, zk.ErrNoNode},
		"set old version":  {func() error { _, err := s.set(ctx, root, nil, 7); return err }, zk.ErrBadVersion},
		"create again":     {func() error { _, err := s.create(ctx, root, nil, 0); return err }, zk.ErrNodeExists},
		"create below none": {
			func() error { _, err := s.create(ctx, root+"/none/child", nil, 0); return err }, zk.ErrNoNode,
		},
		"create below mine": {
			func() error { _, err := s.create(ctx, root+"/mine/child", nil, 0); return err }, zk.ErrNoChildrenForEphemerals,
		},
		"remove with child": {func() error { return s.remove(ctx, root, -1) }, zk.ErrNotEmpty},
		"remove nothing":    {func() error { return s.remove(ctx, root+"/none", -1) }, zk.ErrNoNode},
		"no path":           {func() error { _, _, err := s.get(ctx, "x"); return err }, zk.ErrInvalidPath},
		"too large": {
			func() error { _, err := s.create(ctx, root+"/large", make([]byte, 2<<20), 0); return err }, zk.ErrShortBuffer,
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.do()
			require.ErrorIs(t, err, test.want)
			require.NotErrorIs(t, err, worker.ErrUnreachable)
			require.False(t, unsent(err))
		})
	}
}

func TestMulti(t *testing.T) {
	server := zookeepertest.Shared(t)
	s, root := openTest(t, to(server.Addr())), server.NewRoot(t)
	ctx := within(t, patience)
	responses, err := s.multi(ctx,
		zk.CreateRequest{Path: root, Data: []byte("a")},
		&zk.CreateRequest{Path: root + "/n-", Flags: zk.FlagSequence, Acl: s.acl()},
	)
	require.NoError(t, err)
	require.Len(t, responses, 2)
	require.Equal(t, root+"/n-0000000000", responses[1].String)

	responses, err = s.multi(ctx,
		zk.CheckVersionRequest{Path: root, Version: 0},
		zk.SetDataRequest{Path: root, Data: []byte("b"), Version: 0},
		zk.CreateRequest{Path: root, Data: []byte("a")},
		&zk.DeleteRequest{Path: root + "/n-0000000000", Version: 9},
	)
	require.ErrorIs(t, err, zk.ErrNodeExists)
	require.NotErrorIs(t, err, zk.ErrBadVersion)
	require.ErrorContains(t, err, "operation 2: create "+root)
	require.NotErrorIs(t, err, worker.ErrUnreachable)
	require.Len(t, responses, 4)
	requireData(t, s.session, root, "a") // none of it was done

	_, err = s.multi(ctx, &zk.CheckVersionRequest{Path: root, Version: 3})
	require.ErrorIs(t, err, zk.ErrBadVersion)
	responses, err = s.multi(ctx, &zk.SetDataRequest{Path: root, Data: []byte("b"), Version: 0}, zk.DeleteRequest{Path: root + "/n-0000000000"})
	require.NoError(t, err)
	require.EqualValues(t, 1, responses[0].Stat.Version)
	_, err = s.multi(ctx, "nonsense")
	require.ErrorIs(t, err, zk.ErrBadArguments)
	_, err = s.multi(within(t, 0), zk.DeleteRequest{Path: root})
	require.ErrorIs(t, err, worker.ErrUnreachable)
	require.True(t, unsent(err))
}
