package main

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// A loop of a real daemon that is stuck ends the feeding, and names itself; once it
// comes round again, the feeding goes on. The loop is the worker's, which is made to
// wait for a log that no process reads.
func TestStuckLoopIsNotFed(t *testing.T) {
	t.Parallel()
	m, sd := newMachine(t), newManager(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	_, err = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096)
	require.NoError(t, err)
	// An open file of its own: to write without waiting does not affect the daemon's.
	filler, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(int(w.Fd())), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	l := &child{t: t, addr: freeAddress(t)}
	l.url = "http://" + l.addr
	cmd := exec.Command(os.Args[0], "serve", "--listen", l.addr, "--data-dir", m.dataDir())
	cmd.Env = append(m.env(), sd.env(600*time.Millisecond)...)
	cmd.Stderr = w
	process, err := proctest.Start(cmd)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	defer func() { require.NoError(t, process.End(syscall.SIGKILL)) }()
	at := sd.await(0, "READY=1")
	at = sd.await(at, "WATCHDOG=1")
	require.Equal(t, 200, l.mustGet("/api/snowflake/get/a").status)
	m.step(-time.Hour)
	at = sd.await(at, "STATUS=NOT READY: ")

	// Byte by byte at the end: what is free has to be less than a line.
	for _, size := range []int{4096, 1} {
		for err = nil; err == nil; {
			_, err = syscall.Write(int(filler.Fd()), make([]byte, size))
		}
		require.ErrorIs(t, err, syscall.EAGAIN)
	}
	m.step(time.Hour) // what is over is logged
	at = sd.await(at, "STATUS=STUCK: the loop that compares conditions is ")
	told := len(sd.messages())
	require.Never(t, func() bool {
		return len(sd.messages()) > told && strings.Contains(strings.Join(sd.messages()[told:], ","), "WATCHDOG")
	},
		900*time.Millisecond, 50*time.Millisecond)

	require.NoError(t, filler.Close())
	drained := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, r)
		drained <- err
	}()
	at = sd.await(at, "WATCHDOG=1")
	sd.await(at, "STATUS=ready; worker 0 ("+l.addr+")")
	require.NoError(t, cmd.Process.Kill())
	require.NoError(t, <-drained)
	require.NoError(t, r.Close())
}

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
