package main

import (
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// A daemon that freezes inside a fetch holds the tag's row for the 3 s of the session's
// wait_timeout, and not for the minute of a connection that is idle (high-mark-decides).
func TestFrozenInsideAFetch(t *testing.T) {
	t.Parallel()
	s, server := newShop(t)
	mariadb := mariadbtest.Start(t)
	name := mariadb.NewDatabase(t)
	db := mariadb.DB(t, name)
	javaTable(t, db)
	settings := []string{"--modes", "segment", "--mysql", mariadb.DSN(name), tune("SegmentWait", "10s"), "--segment-guard", "require"}
	proxy := zookeepertest.NewProxy(t, server.Addr())
	frozen, other := s.behind(proxy).ready(settings...), s.machine().ready(settings...)
	s.take(other, "b", 1)
	s.take(frozen, "b", 1)
	proxy.Latency(t, 400*time.Millisecond) // for so long it holds the row, twice
	const look = 150 * time.Millisecond    // InnoDB shows what it showed before, where it was asked within 100 ms
	locks := func() (n int) {
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_rows_locked > 0").Scan(&n))
		return n
	}
	var client sync.WaitGroup
	client.Go(func() { _, _ = frozen.get("/api/segment/get/a") })
	require.Eventually(t, func() bool { return locks() > 0 }, eventually, look)
	frozen.signal(syscall.SIGSTOP)
	began := time.Now()
	time.Sleep(look) // what the server was told before ends
	require.NotZero(t, locks(), "it froze inside the fetch")
	require.Equal(t, http.StatusOK, other.awaitStatus("/api/segment/get/a?n=10", http.StatusOK).status)
	t.Logf("the other daemon has its range after %v", time.Since(began).Round(time.Millisecond))
	frozen.signal(syscall.SIGCONT)
	proxy.Latency(t, 0)
	client.Wait()
	for range 5 {
		s.take(frozen, "a", 5000)
		s.take(other, "a", 5000)
	}
	require.Equal(t, cli.ExitOK, frozen.stop())
	require.Equal(t, cli.ExitOK, other.stop())
}
