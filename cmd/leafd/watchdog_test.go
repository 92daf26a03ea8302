package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leafd/leafd/segment/sqlstore/mariadbtest"
	"github.com/leafd/leafd/zkreg/zookeepertest"
)

// fedBy returns a watchdog of short rounds, and how often it has fed.
func fedBy(t *testing.T, log io.Writer) (*watchdog, *atomic.Int64) {
	t.Helper()
	fed := &atomic.Int64{}
	n := &notifier{log: zerolog.Nop(), send: func(state string) error {
		if state == "WATCHDOG=1" {
			fed.Add(1)
		}
		return nil
	}}
	return newWatchdog(n, zerolog.New(log), 60*time.Millisecond), fed
}

func TestWatchdogRounds(t *testing.T) {
	t.Parallel()
	passes := func(context.Context) error { return nil }
	fails := func(context.Context) error { return errors.New("stuck") }
	for name, c := range map[string]struct {
		checks []func(context.Context) error
		stop   bool
		fed    int64
		stuck  string
	}{
		"all pass":            {checks: []func(context.Context) error{passes, passes}, fed: 1},
		"one fails":           {checks: []func(context.Context) error{passes, fails}, stuck: "b: stuck"},          // D1
		"all fail":            {checks: []func(context.Context) error{fails, fails}, stuck: "a: stuck; b: stuck"}, // D1
		"stopping, all fail":  {checks: []func(context.Context) error{fails, fails}, stop: true, fed: 1},          // D5
		"nothing to ask, yet": {fed: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, fed := fedBy(t, io.Discard)
			for i, check := range c.checks {
				w.add(string(rune('a'+i)), check)
			}
			if c.stop {
				w.stop()
			}
			w.round(t.Context())
			require.Equal(t, c.fed, fed.Load())
			require.Equal(t, c.stuck, w.stuck())
		})
	}
}

// D2: a check that hangs fails every round until it returns, and is not asked again
// meanwhile; the log tells of both.
func TestWatchdogCheckThatHangs(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var log bytes.Buffer
	w, fed := fedBy(t, lockedWriter{&mu, &log})
	logged := func() string {
		mu.Lock()
		defer mu.Unlock()
		return log.String()
	}
	release, calls := make(chan struct{}), atomic.Int64{}
	w.add("hangs", func(context.Context) error { calls.Add(1); <-release; return nil })
	w.add("passes", func(context.Context) error { return nil })
	w.round(t.Context())
	require.Equal(t, "hangs: no answer within 20ms", w.stuck())
	for range 3 {
		w.round(t.Context())
		require.Equal(t, "hangs: no answer yet", w.stuck())
	}
	require.EqualValues(t, 1, calls.Load())
	require.Zero(t, fed.Load())
	require.Eventually(t, func() bool { return strings.Contains(logged(), "a part of leafd is stuck") }, 10*time.Second, time.Millisecond)
	close(release)
	require.Eventually(t, func() bool { w.round(t.Context()); return fed.Load() > 0 }, 10*time.Second, time.Millisecond)
	require.Empty(t, w.stuck())
	require.Eventually(t, func() bool { return strings.Contains(logged(), "every part works again") }, 10*time.Second, time.Millisecond)
	require.Equal(t, 2, strings.Count(logged(), "\n"), "one line for each change: %s", logged())
}

// Where systemd doesn't watch, nothing is checked.
func TestWatchdogSwitchedOff(t *testing.T) {
	t.Parallel()
	w := newWatchdog(&notifier{}, zerolog.Nop(), 0)
	w.run(t.Context()) // returns at once: the context never ends
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// The check of the own listener fails for silence and for a closed port, and for
// nothing else (D3).
func TestAskSelf(t *testing.T) {
	t.Parallel()
	accepting := func(t *testing.T, serve func(net.Conn)) net.Addr {
		t.Helper()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		var all sync.WaitGroup
		all.Go(func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				serve(conn)
				_ = conn.Close()
			}
		})
		t.Cleanup(func() { require.NoError(t, ln.Close()); all.Wait() })
		return ln.Addr()
	}
	for name, c := range map[string]struct {
		serve func(net.Conn)
		stuck bool
	}{
		"answers":  {func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n") }, false},
		"refuses":  {func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\n\r\n") }, false},
		"hangs up": {func(net.Conn) {}, false},
		"silent":   {func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			err := askSelf(ctx, accepting(t, c.serve), nil)
			require.Equal(t, c.stuck, err != nil, "%v", err)
		})
	}
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, ln.Close())
		require.ErrorIs(t, askSelf(t.Context(), ln.Addr(), nil), syscall.ECONNREFUSED)
	})
	t.Run("no connection to be had", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, own(os.NewSyscallError("socket", syscall.EMFILE)))
		require.NoError(t, own(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}))
		require.Error(t, own(os.NewSyscallError("connect", syscall.ECONNREFUSED)))
	})
}

// A loop of a real daemon that is stuck ends the feeding, and names itself; once it
// comes round again, the feeding goes on. The loop is the worker's, which is made to
// wait for a log that nobody reads.
func TestStuckLoopIsNotFed(t *testing.T) {
	t.Parallel()
	m, sd := newMachine(t), newManager(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	_, err = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096)
	require.NoError(t, err)
	// An open file of its own: to write without waiting is no affair of the daemon's.
	filler, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(int(w.Fd())), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	l := &child{t: t, addr: freeAddress(t)}
	l.url = "http://" + l.addr
	cmd := exec.Command(os.Args[0], "serve", "--listen", l.addr, "--data-dir", m.dataDir(), "--log-format", "json")
	cmd.Env = append(m.env(), sd.env(600*time.Millisecond)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = w
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}()
	at := sd.await(0, "READY=1")
	at = sd.await(at, "WATCHDOG=1")
	require.Equal(t, 200, l.mustGet("/api/snowflake/get/a").status)
	m.step(-time.Hour)
	at = sd.await(at, "STATUS=worker 0 ("+l.addr+") REFUSES")

	// Byte by byte at the end: what is free has to be less than a line.
	for _, size := range []int{4096, 1} {
		for err = nil; err == nil; {
			_, err = syscall.Write(int(filler.Fd()), make([]byte, size))
		}
		require.ErrorIs(t, err, syscall.EAGAIN)
	}
	m.step(time.Hour) // who notices has to log it
	at = sd.await(at, "STATUS=STUCK: worker: worker: the loop that looks at the generator is ")
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
	sd.await(at, "STATUS=worker 0 ("+l.addr+") issues; clock ok; ")
	require.NoError(t, cmd.Process.Kill())
	require.NoError(t, <-drained)
	require.NoError(t, r.Close())
}

// D3: with ZooKeeper and the database hanging, the data folder not to be written and
// the clock set back, all at once and for longer than any loop may take, a daemon is
// fed on: it works, and a restart would make it none the better.
func TestOutagesDontStarveTheWatchdog(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts real servers")
	}
	z := zookeepertest.Start(t)
	mariadb := mariadbtest.Start(t)
	name := mariadb.NewDatabase(t)
	javaTable(t, mariadb.DB(t, name))
	m, sd := onServers(t, "/leaf", z.Addr()).machine("--report-interval", "200ms", "--mysql", mariadb.DSN(name), "--segment-refresh", "1s"), newManager(t)
	m.peers = 200 * time.Millisecond
	m.prepare = func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, sd.env(time.Second)...) }
	l := m.ready()
	require.Equal(t, 200, l.mustGet("/api/segment/get/a").status)
	require.Equal(t, 200, l.mustGet("/api/snowflake/get/a").status)
	sd.await(0, "STATUS=worker 0 ("+l.addr+") issues; clock ok; ZooKeeper ok; 2 tags, MySQL ok")

	z.Pause(t)
	mariadb.Pause(t)
	m.step(-time.Minute)
	require.Equal(t, 200, l.mustGet("/api/segment/get/a?n=500").status, "asks for the next range")
	at := len(sd.messages())
	sd.await(at, "STATUS=worker 0 ("+l.addr+") REFUSES; clock BEHIND the last ID; ZooKeeper OUT OF REACH; 2 tags, MySQL OUT OF REACH")
	at = len(sd.messages())
	for range 24 { // a third of a second each: longer than the grace of a loop
		at = sd.await(at, "WATCHDOG=1")
	}
	require.NotContains(t, strings.Join(sd.messages(), ","), "STUCK")
	z.Resume(t)
	mariadb.Resume(t)
	require.False(t, l.hasLogged("stuck"), l.logged())
}
