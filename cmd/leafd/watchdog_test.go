package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// With ZooKeeper and the database hanging, the data directory not to be written and
// the clock set back, all at once and for longer than any loop may take, a daemon is
// fed on: it works, and a restart would make it none the better.
func TestOutagesDontStarveTheWatchdog(t *testing.T) {
	underLoad(t)
	if testing.Short() {
		t.Skip("starts real servers")
	}
	z := zookeepertest.Start(t)
	mariadb := mariadbtest.Start(t)
	name := mariadb.NewDatabase(t)
	javaTable(t, mariadb.DB(t, name))
	m, sd := onServers(t, "/leaf", z.Addr()).machine(tune("ReportInterval", "200ms"), "--mysql", mariadb.DSN(name)), newManager(t)
	m.peers = 200 * time.Millisecond
	m.prepare = func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, sd.env(time.Second)...) }
	l := m.ready()
	l.awaitStatus("/api/segment/get/a", 200)
	require.Equal(t, 200, l.mustGet("/api/snowflake/get/a").status)
	sd.await(0, "STATUS=ready; worker 0 ("+l.addr+"); tags in MySQL: 1")

	z.Pause(t)
	mariadb.Pause(t)
	m.step(-time.Minute)
	require.Equal(t, 200, l.mustGet("/api/segment/get/a?n=500").status, "asks for the next range")
	at := len(sd.messages())
	sd.await(at, "STATUS=NOT READY: the clock is behind the last ID")
	at = len(sd.messages())
	for range 24 { // a third of a second each: longer than the grace of a loop
		at = sd.await(at, "WATCHDOG=1")
	}
	require.NotContains(t, strings.Join(sd.messages(), ","), "STUCK")
	z.Resume(t)
	mariadb.Resume(t)
	require.False(t, l.hasLogged("stuck"), l.Log())
}
