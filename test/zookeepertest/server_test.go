package zookeepertest

import (
	"errors"
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
