package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

// The data directory is lost, or the record in it, or that is damaged, after a power cut, and
// the clock is set back into the report interval: the directory is a new instance, and gets
// another worker ID, so that no ID repeats. The one before comes back by its limit.
func TestLostDirectoryIsANewInstance(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		lose func(m *machine) error
		says []string
	}{
		{"directory", func(m *machine) error { return os.RemoveAll(m.dataDir()) }, []string{"no record of an earlier run"}},
		{"record", func(m *machine) error { return os.Remove(m.dataDir() + "/worker.json") }, []string{`"alarm":"worker_id_lost"`, `worker.saved too"`}},
		{"damaged", func(m *machine) error { return os.Truncate(m.dataDir()+"/worker.json", 100) }, []string{`"alarm":"worker_id_lost"`, "it was set aside as worker.json.aside-"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := onShared(t)
			o := c.watch()
			slow := []string{tune("ReportInterval", "2s"), tune("CeilingLead", "3500ms")}
			m := c.machine("--zk-session-timeout", "1s")
			l := m.ready(slow...)
			require.Zero(t, l.info().ID)
			path := o.path(0)
			ld := newLoad(l, "/api/snowflake/get/a?n=20")
			var reported znode
			require.Eventually(t, func() bool {
				reported = o.must(path).payload(t)
				return ld.count() > 1000 && m.now().Sub(reported.Timestamp) > 1600*time.Millisecond
			}, eventually, 5*time.Millisecond)
			l.kill()
			got := ld.stop()
			require.Empty(t, ld.broken)
			require.NoError(t, tc.lose(m))
			before := o.must(path)
			m.step(reported.Timestamp.Add(20 * time.Millisecond).Sub(m.now()))

			l = m.ready(slow...)
			require.True(t, l.hasLogged(tc.says...), l.Log())
			require.Equal(t, int64(1), l.info().ID)
			requireDistinct(t, append(got, l.batch("/api/snowflake/get/a?n=2000")...))
			require.Equal(t, before, o.must(path), "the old one's entry is left as it is")
			require.NotEqual(t, before.payload(t).Instance, l.info().Instance)
			require.Equal(t, cli.ExitOK, l.stop())
			l = m.ready(slow...)
			require.Equal(t, int64(1), l.info().ID, "and it has a record again")
			require.Equal(t, cli.ExitOK, l.stop())
		})
	}
}

// A record of a format that this leafd does not know ends a start, with ZooKeeper too: it may
// be the directory's by right, and is left as it is. Nothing is claimed, and nothing issued.
func TestUnknownRecordEndsAStart(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	o := c.watch()
	for sample, says := range map[string]string{
		"unknown-version-1.json":    "its version is 1, and this leafd knows 4",
		"unknown-version-2.json":    "its version is 2, and this leafd knows 4",
		"unknown-version-3.json":    "its version is 3, and this leafd knows 4",
		"unknown-prior-owners.json": `unknown field "lineage"`,
	} {
		content, err := os.ReadFile("../../testdata/cache/" + sample)
		require.NoError(t, err)
		m := c.machine()
		path := m.dataDir() + "/worker.json"
		require.NoError(t, os.MkdirAll(m.dataDir(), 0o700))
		require.NoError(t, os.WriteFile(path, content, 0o600))
		l := m.start()
		l.exits(cli.ExitFailure)
		require.True(t, l.hasLogged(path, "record of a format that this leafd does not know", "start the leafd that wrote it"), l.Log())
		require.Contains(t, strings.ReplaceAll(l.Log(), `\"`, `"`), says)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, after)
		require.Empty(t, o.entries())
	}
}
