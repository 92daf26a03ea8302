package zookeepertest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/test/proctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(StopAfter(m), proctest.IgnoreProxies()...) }

const patience = 60 * time.Second

// create creates a node, once there is a connection.
func create(t testing.TB, conn *zk.Conn, path string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
		return err == nil || errors.Is(err, zk.ErrNodeExists)
	}, patience, 10*time.Millisecond)
}

func requireNodes(t testing.TB, conn *zk.Conn, want ...string) {
	t.Helper()
	var names []string
	require.Eventually(t, func() bool {
		var err error
		names, _, err = conn.Children("/")
		return err == nil
	}, patience, 10*time.Millisecond)
	require.ElementsMatch(t, append(want, "zookeeper"), names)
}

// TestDataOutlivesTheProcess takes a server through every end it can have.
func TestDataOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	server := Start(t)
	address := server.Addr()
	var nodes []string
	for i, end := range []func(testing.TB){server.Kill, server.Stop, server.Kill} {
		nodes = append(nodes, fmt.Sprint("n", i))
		create(t, server.Conn(t), "/"+nodes[i])
		end(t)
		end(t) // there is none any more, and that is in order
		_, err := server.ask(t.Context(), "srvr")
		require.Error(t, err)
		server.Restart(t)
		requireNodes(t, server.Conn(t), nodes...)
		require.Equal(t, address, server.Addr())
	}
	server.Wipe(t)
	requireNodes(t, server.Conn(t))
	require.Equal(t, address, server.Addr())
}

func TestPausedServerAnswersAfterResume(t *testing.T) {
	t.Parallel()
	server := Start(t)
	server.Pause(t)
	answered := make(chan error, 1)
	go func() { _, err := server.mode(t.Context()); answered <- err }()
	require.Never(t, func() bool { return len(answered) > 0 }, 200*time.Millisecond, 50*time.Millisecond)
	server.Resume(t)
	require.NoError(t, <-answered)
	server.Pause(t)
	server.Stop(t) // of a paused one
}

func TestSharedIsOne(t *testing.T) {
	t.Parallel()
	first, second := Shared(t), Shared(t)
	require.Same(t, first, second)
	require.NotEqual(t, first.NewRoot(t), second.NewRoot(t))
}

// TestEnsemble loses and regains its leader, its quorum, and its data.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	e := StartEnsemble(t, 3)
	conn := e.Conn(t)
	create(t, conn, "/n0")
	first := e.Leader(t)
	e.Servers[first].Kill(t)
	second := e.Leader(t)
	require.NotEqual(t, first, second)
	create(t, conn, "/n1")
	e.Servers[second].Kill(t) // no quorum any more
	third := 3 - first - second
	require.Eventually(t, func() bool {
		_, err := e.Servers[third].mode(t.Context())
		return err != nil
	}, patience, 10*time.Millisecond)
	e.Restart(t, first, second)
	for _, s := range e.Servers {
		requireNodes(t, s.Conn(t), "n0", "n1")
	}
	e.Servers[e.Leader(t)].Pause(t)
	e.Leader(t)
	for _, s := range e.Servers {
		if !s.process.Paused() { // a plain connection to the one that hangs takes its time to leave it
			create(t, s.Conn(t), "/n2")
			break
		}
	}
	for _, s := range e.Servers {
		if s.process.Paused() {
			s.Resume(t)
		}
	}
	e.Serving(t)
	restore := e.Snapshot(t)
	create(t, e.Conn(t), "/n3")
	restore(t)
	requireNodes(t, e.Conn(t), "n0", "n1", "n2")
	e.Reconfigure(t, "minSessionTimeout=30000")
	conf, err := e.Servers[0].ask(t.Context(), "conf")
	require.NoError(t, err)
	require.Contains(t, conf, "minSessionTimeout=30000")
	create(t, e.Conn(t), "/n2/below")
	e.Remove(t, "/n2")
	requireNodes(t, e.Conn(t), "n0", "n1")
	e.Wipe(t)
	requireNodes(t, e.Conn(t))
}
