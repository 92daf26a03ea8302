package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// A clean stop burns no ID, and the next life serves on with the database away, what the
// last one left and no ID twice.
func TestRestOverARestart(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	mariadb := mariadbtest.Start(t)
	name := mariadb.NewDatabase(t)
	javaTable(t, mariadb.DB(t, name))
	settings := []string{"--mysql", mariadb.DSN(name)}
	var got []int64
	take := func(l *child, n int) {
		t.Helper()
		list, err := ids(l.awaitStatus(fmt.Sprintf("/api/segment/get/a?n=%d", n), http.StatusOK).body)
		require.NoError(t, err)
		got = append(got, list...)
	}
	maxID := func() (n int64) {
		require.NoError(t, mariadb.DB(t, name).QueryRowContext(t.Context(), "SELECT max_id FROM leaf_alloc WHERE biz_tag = 'a'").Scan(&n))
		return n
	}

	l := m.ready(settings...)
	take(l, 200)
	l.awaitIdle()
	before := maxID()
	for range 3 {
		require.Equal(t, cli.ExitOK, l.stop())
		l = m.ready(settings...)
		take(l, 20)
		l.awaitIdle()
	}
	require.Equal(t, before, maxID(), "four lives use the ranges of one")
	require.Equal(t, cli.ExitOK, l.stop())

	mariadb.Kill(t)
	began := time.Now()
	l = m.ready(settings...)
	take(l, 10)
	t.Logf("first ID %s after the start, with the database away", time.Since(began))
	require.Equal(t, "segment_unavailable", l.mustGet("/api/segment/get/b").code(), "never used: it is not known whether it is there")
	require.Equal(t, "segment_unavailable", l.mustGet("/api/segment/get/missing").code())
	require.NoFileExists(t, filepath.Join(m.dataDir(), "segments.rest"))
	// A life that dies leaves nothing.
	l.kill()
	l = m.start(settings...)
	l.awaitLog(`"alarm":"segment_store"`)
	require.Equal(t, "segment_unavailable", l.mustGet("/api/segment/get/a").code())
	mariadb.Restart(t)
	take(l, 2000)
	requireDistinct(t, got)
	require.Equal(t, cli.ExitOK, l.stop())
}

// awaitIdle waits until no range is fetched.
func (l *child) awaitIdle() {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		return !strings.Contains(l.mustGet("/api/segments").body, `"fetching":true`)
	}, eventually, 5*time.Millisecond)
}

// rest-taken-once: a rest is used once, with any files copied and put back, and whichever
// daemon starts first.
func TestRestIsUsedByOneLife(t *testing.T) {
	t.Parallel()
	mariadb := mariadbtest.Start(t)
	copyAll := func(t *testing.T, from, to string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "cp", "-a", from+"/.", to).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	for name, tc := range map[string]struct {
		// stopped changes things after the clean stop, and used after a life has used the rest.
		stopped, used func(t *testing.T, data, aside string)
	}{
		"the copy starts as well": {
			func(t *testing.T, data, aside string) { copyAll(t, data, aside) }, nil,
		},
		"the file is put back": {
			func(t *testing.T, data, aside string) { copyAll(t, data, aside) },
			func(t *testing.T, data, aside string) {
				out, err := exec.CommandContext(t.Context(), "cp", "-a", aside+"/segments.rest", data).CombinedOutput()
				require.NoError(t, err, "%s", out)
			},
		},
		"file and lock file are put back in place": {
			func(t *testing.T, data, aside string) { copyAll(t, data, aside) },
			func(t *testing.T, data, aside string) {
				for _, file := range []string{"segments.rest", "leafd.lock"} {
					content, err := os.ReadFile(filepath.Join(aside, file))
					require.NoError(t, err)
					require.NoError(t, os.WriteFile(filepath.Join(data, file), content, 0o600))
				}
			},
		},
		"the directory is moved away, and back": {
			func(t *testing.T, data, aside string) { copyAll(t, data, aside) },
			func(t *testing.T, data, aside string) {
				require.NoError(t, os.RemoveAll(data))
				require.NoError(t, os.Rename(aside, data))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			aside := filepath.Join(m.dir, "aside")
			require.NoError(t, os.Mkdir(aside, 0o700))
			name := mariadb.NewDatabase(t)
			javaTable(t, mariadb.DB(t, name))
			// Snowflake IDs have guards of their own against what is done here.
			serve := []string{"--mysql", mariadb.DSN(name), "--modes", "segment"}
			var got []int64
			take := func(l *child) {
				list, err := ids(l.awaitStatus("/api/segment/get/a?n=50", http.StatusOK).body)
				require.NoError(t, err)
				got = append(got, list...)
			}
			first := m.ready(serve...)
			take(first)
			require.Equal(t, cli.ExitOK, first.stop())
			tc.stopped(t, m.dataDir(), aside)
			second := m.ready(serve...)
			take(second)
			require.True(t, second.hasLogged("tags go on with what the last stop left"))
			require.EqualValues(t, 51, got[50], "it goes on where the first one stopped")
			last := *m
			if tc.used != nil {
				second.kill()
				tc.used(t, m.dataDir(), aside)
			} else {
				last.dir = filepath.Join(m.dir, "other")
				require.NoError(t, os.Mkdir(last.dir, 0o700))
				require.NoError(t, os.Rename(aside, last.dataDir()))
				content, err := os.ReadFile(m.skewFile())
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(last.skewFile(), content, 0o600))
			}
			third := last.ready(serve...)
			take(third)
			require.True(t, third.hasLogged("is not used"))
			requireDistinct(t, got)
			require.NoFileExists(t, filepath.Join(last.dataDir(), "segments.rest"))
			require.Equal(t, cli.ExitOK, third.stop())
		})
	}
}

// A file system that was set back with the machine down looks like one that
// wasn't. ZooKeeper tells, or that the machine runs on, or the rest is burned.
func TestRestAfterTheMachineWasDown(t *testing.T) {
	t.Parallel()
	s := zookeepertest.Start(t)
	c := onServers(t, "/leaf", s.Addr())
	clustered, alone := c.host(), newMachine(t)
	nextID := func(l *child) int {
		id, err := strconv.Atoi(l.awaitStatus("/api/segment/get/leaf-segment-test", http.StatusOK).body)
		require.NoError(t, err)
		return id
	}
	last := map[*machine]int{}
	const used, burned = "tags go on with what the last stop left", "is not used"
	for _, life := range []struct {
		name string
		m    *machine
		boot string
		kill bool
		logs string
	}{
		{"first", clustered, "one", false, ""},
		{"ZooKeeper knows", clustered, "two", false, used},
		{"the machine runs on", clustered, "two", false, used},
		{"the machine runs on, without ZooKeeper", clustered, "two", true, used},
		{"nothing tells", clustered, "three", false, burned},
		{"first alone", alone, "one", false, ""},
		{"the machine runs on, alone", alone, "one", false, used},
		{"nothing tells, alone", alone, "two", false, burned},
	} {
		if life.kill {
			s.Kill(t)
		}
		life.m.boot = life.boot
		l := life.m.start()
		if life.name == "nothing tells" { // and without ZooKeeper nothing is fetched from a daemon's own table
			l.awaitLog(burned)
			require.Equal(t, http.StatusServiceUnavailable, l.mustGet("/api/segment/get/leaf-segment-test").status)
			require.False(t, l.hasLogged(used))
			require.Equal(t, cli.ExitOK, l.stop())
			continue
		}
		id := nextID(l) // while it starts
		if life.logs != "" {
			l.awaitLog(life.logs)
			require.Equal(t, life.logs == used, id == last[life.m]+1, "%s: %d after %d", life.name, id, last[life.m])
			require.Greater(t, id, last[life.m])
		}
		last[life.m] = id
		l.awaitStatus("/readyz", http.StatusOK)
		require.Equal(t, life.logs == used, l.hasLogged(used), life.name)
		require.Equal(t, life.logs == burned, l.hasLogged(burned), life.name)
		require.Equal(t, cli.ExitOK, l.stop())
	}
}
