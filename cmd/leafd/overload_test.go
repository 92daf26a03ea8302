package main

import (
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/mariadbtest"
)

// metric is the value of a metric of the daemon, named with its labels.
func (l *child) metric(name string) string {
	l.t.Helper()
	for line := range strings.Lines(l.scrape()) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	require.FailNow(l.t, "no such metric", name)
	return ""
}

// More batches than the milliseconds have IDs for: some are shed, and no ID is given
// twice or lost to those. One ID is always to be had.
func TestQueueOfBatchesIsBounded(t *testing.T) {
	m := newMachine(t)
	l := m.ready(tune("QueueWait", "5ms")) // 20,480 IDs
	var paths []string
	for range 4 { // two clients each
		paths = append(paths, "/api/snowflake/get/batches?n=10000")
	}
	batches := newLoad(l, paths...)
	singles := newLoad(l, "/api/snowflake/get/one")
	require.Eventually(t, func() bool {
		batches.mu.Lock()
		defer batches.mu.Unlock()
		return batches.refused["overloaded"] > 20 && len(batches.got) > 200_000
	}, 60*time.Second, 10*time.Millisecond)
	require.Equal(t, http.StatusOK, l.mustGet("/readyz").status)
	all := append(batches.stop(), singles.stop()...)
	require.Empty(t, batches.broken)
	require.Zero(t, batches.failed)
	require.Len(t, batches.refused, 1, "overloaded, and nothing else")
	require.Empty(t, singles.refused)
	require.Empty(t, singles.broken)
	require.NotEmpty(t, singles.got)
	seen := make(map[int64]bool, len(all))
	for _, id := range all {
		if seen[id] {
			require.FailNow(t, "an ID twice", "%d", id)
		}
		seen[id] = true
	}
	require.Equal(t, "0", l.metric("leafd_snowflake_queued_ids"))
	require.Equal(t, "0", l.metric(`leafd_http_inflight{mode="snowflake"}`))
	require.NotEqual(t, "0", l.metric(`leafd_http_shed_total{reason="queue"}`))
}

// A row of the table that is locked: the number of requests that wait for it is bounded, and
// no other is refused.
func TestWaitsForTheDatabaseAreBounded(t *testing.T) {
	m := newMachine(t)
	mariadb := mariadbtest.Shared(t)
	name := mariadb.NewDatabase(t)
	db := mariadb.DB(t, name)
	javaTable(t, db)
	l := m.ready("--mysql", mariadb.DSN(name)+"?innodb_lock_wait_timeout=60&readTimeout=60s", tune("SegmentWait", "1m"), tune("MaxInflight", "2"))
	require.Equal(t, http.StatusOK, l.awaitStatus("/api/segment/get/b?n=5", http.StatusOK).status) // from now on in memory

	looked, err := http.Head(l.url + "/api/segment/get/a") // it is known, and has no range
	require.NoError(t, err)
	require.NoError(t, looked.Body.Close())
	require.Equal(t, http.StatusOK, looked.StatusCode)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer tx.Rollback() //nolint:errcheck // committed below, if all goes well
	_, err = tx.ExecContext(t.Context(), "SELECT * FROM leaf_alloc WHERE biz_tag = 'a' FOR UPDATE")
	require.NoError(t, err)
	var waiting sync.WaitGroup
	answers := make([]answer, 2)
	for i := range answers {
		waiting.Go(func() {
			resp, err := http.Get(l.url + "/api/segment/get/a")
			if err != nil {
				t.Error(err)
				return
			}
			answers[i].status = resp.StatusCode
			_ = resp.Body.Close()
		})
	}
	require.Eventually(t, func() bool { return l.metric(`leafd_http_inflight{mode="segment"}`) == "2" }, eventually, 5*time.Millisecond)
	a := l.mustGet("/api/segment/get/a")
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Equal(t, "overloaded", a.code())
	require.Equal(t, "1", a.header.Get("Retry-After"))
	require.Equal(t, http.StatusOK, l.mustGet("/api/segment/get/b").status, "in memory")
	require.Equal(t, http.StatusOK, l.mustGet("/api/snowflake/get/x?n=10000").status)
	for _, path := range []string{"/healthz", "/readyz", "/api/segments"} {
		require.Equal(t, http.StatusOK, l.mustGet(path).status, path)
	}
	require.NoError(t, tx.Commit())
	waiting.Wait()
	for _, a := range answers {
		require.Equal(t, http.StatusOK, a.status, "a request that was let in is served")
	}
	require.Equal(t, "0", l.metric(`leafd_http_inflight{mode="segment"}`))
	require.Equal(t, http.StatusOK, l.mustGet("/api/segment/get/a").status)
}

// Rates of keys, set by the file and changed by a reload.
func TestRateLimitOfTheDaemon(t *testing.T) {
	m := newMachine(t)
	file := clitest.WriteFile(t, "leafd.yaml", "rate-limit: 1\n")
	l := m.ready("--config", file)
	exhaust := func(key string) {
		require.Eventually(t, func() bool { return l.mustGet("/api/snowflake/get/"+key).code() == "rate_limited" }, eventually, time.Millisecond, key)
	}
	a := l.mustGet("/api/snowflake/get/hog?n=1000")
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Equal(t, "bad_count", a.code())
	require.Equal(t, http.StatusOK, l.mustGet("/api/snowflake/get/hog").status, "it has cost nothing")
	exhaust("hog")
	l.awaitStatus("/api/segment/get/leaf-segment-test", http.StatusOK)
	require.NotEqual(t, "0", l.metric(`leafd_rate_limited_total{mode="snowflake"}`))

	require.NoError(t, os.WriteFile(file, []byte("rate-limit: 1\nrate-limits: {hog: 5000}\n"), 0o600))
	l.signal(syscall.SIGHUP)
	l.awaitStatus("/api/snowflake/get/hog?n=1000", http.StatusOK)
	exhaust("other")
}
