package main

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

// The data directory is lost, or the record in it, after a power cut, and the clock is
// set back into the report interval: ZooKeeper gives the same worker ID and the ceiling,
// so that no ID repeats.
func TestLostDirectoryIsReplacedByZooKeeper(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		lose func(m *machine) error
		says string
	}{
		{"directory", func(m *machine) error { return os.RemoveAll(m.dataDir()) }, "no record of an earlier run"},
		{"record", func(m *machine) error { return os.Remove(m.dataDir() + "/worker.json") }, "the local record is lost"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := onShared(t)
			o := c.watch()
			slow := []string{"--report-interval", "2s", "--ceiling-lead", "3500ms"}
			// Worker ID 0 is taken: a first start would get another one.
			require.Equal(t, cli.ExitOK, c.machine().ready(slow...).stop())
			m := c.machine("--zk-session-timeout", "1s")
			l := m.ready(slow...)
			require.Equal(t, int64(1), l.info().ID)
			path := fmt.Sprintf("%s/%s-%010d", o.forever, m.addr, 1)
			ld := newLoad(l, "/api/snowflake/get/a?n=20")
			var reported znode
			require.Eventually(t, func() bool {
				reported = o.must(path).payload(t)
				return ld.count() > 1000 && m.now().Sub(reported.Timestamp) > 1600*time.Millisecond
			}, 30*time.Second, 5*time.Millisecond)
			l.kill()
			got := ld.stop()
			require.Empty(t, ld.broken)
			require.NoError(t, tc.lose(m))
			entries := o.entries()
			m.step(reported.Timestamp.Add(20 * time.Millisecond).Sub(m.now()))

			l = m.ready(slow...)
			l.awaitLog(tc.says)
			l.awaitLog("unclean", "ceiling")
			require.Equal(t, int64(1), l.info().ID)
			again := l.batch("/api/snowflake/get/a?n=2000")
			require.GreaterOrEqual(t, timeOf(t, slices.Min(again)), reported.Ceiling)
			require.Greater(t, slices.Min(again), slices.Max(got))
			requireDistinct(t, append(got, again...))
			require.Equal(t, entries, o.entries())
			require.Equal(t, cli.ExitOK, l.stop())
			require.Equal(t, cli.ExitOK, m.ready(slow...).stop(), "and it has a record again")
		})
	}
}
