package main

import (
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// Fifty daemons on one cold tag: the row's lock puts them in one order (high-mark-decides), so that
// hardly a range is proposed in vain. docs/evidence/figures.txt has figures.
func TestFiftyDaemonsOnOneTag(t *testing.T) {
	const daemons, lasts = 50, 10 * time.Second
	server, mariadb := zookeepertest.Start(t), mariadbtest.Start(t)
	name := mariadb.NewDatabase(t)
	javaTable(t, mariadb.DB(t, name))
	c := onServers(t, server.NewRoot(t), server.Addr())
	all := make([]*child, daemons)
	for i := range all {
		all[i] = c.machine().start("--modes", "segment", "--mysql", mariadb.DSN(name))
	}
	for _, l := range all {
		l.awaitStatus("/readyz", http.StatusOK)
	}
	a := newAsker(t, daemons)
	end := time.Now().Add(lasts)
	var clients sync.WaitGroup
	for _, l := range all {
		clients.Go(func() {
			for time.Now().Before(end) {
				_, err := a.ask(t.Context(), l, "a?n=500")
				require.NoError(t, err)
			}
		})
	}
	clients.Wait()
	total := func(metric string) (sum int64) {
		for _, l := range all {
			n, err := strconv.ParseInt(l.metric(metric), 10, 64)
			require.NoError(t, err)
			sum += n
		}
		return sum
	}
	fetches := maxIDOf(t, mariadb.DB(t, name), "a") / 1000 // at most: a step is 1000 at first
	conflicts, givenUp := total("leafd_segment_guard_conflicts_total"), total("leafd_segment_ranges_given_up_total")
	t.Logf("%d daemons, %v: %d requests served, %d refused; %d steps taken, %d conflicts, %d ranges given up, %d unguarded",
		daemons, lasts, a.served.Load(), a.refused.Load(), fetches, conflicts, givenUp, total("leafd_segment_unguarded_fetches_total"))
	require.Less(t, conflicts+givenUp, max(fetches/50, 1))
	for _, l := range all {
		require.Equal(t, cli.ExitOK, l.stop())
	}
}

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
	require.Eventually(t, func() bool { return locks() > 0 }, patience, look)
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
