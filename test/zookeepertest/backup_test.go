package zookeepertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A backup is of one moment, whether the server ran or not, and may be put back more than
// once.
func TestBackupIsPutBack(t *testing.T) {
	t.Parallel()
	server := Start(t)
	conn := server.Conn(t)
	create(t, conn, "/n0")
	running := server.Backup(t)
	create(t, conn, "/n1")
	server.Stop(t)
	stopped := server.Backup(t)
	server.Restart(t)
	create(t, server.Conn(t), "/n2")
	for range 2 {
		server.Restore(t, running)
		requireNodes(t, server.Conn(t), "n0")
		server.Restore(t, stopped)
		requireNodes(t, server.Conn(t), "n0", "n1")
	}
}

// TestSkewedServer: the server's own times follow SetClock, and its data stay.
func TestSkewedServer(t *testing.T) {
	t.Parallel()
	server := StartSkewed(t, 3*time.Hour)
	requireTime := func(path string, ahead time.Duration) {
		t.Helper()
		conn := server.Conn(t)
		create(t, conn, path)
		_, stat, err := conn.Exists(path)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().Add(ahead), time.UnixMilli(stat.Ctime), time.Minute)
	}
	requireTime("/ahead", 3*time.Hour)
	server.SetClock(t, 0)
	requireTime("/right", 0)
	server.SetClock(t, -time.Hour)
	server.Kill(t)
	server.Restart(t) // as it was
	requireTime("/behind", -time.Hour)
	requireNodes(t, server.Conn(t), "ahead", "right", "behind")
}
