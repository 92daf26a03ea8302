package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/proctest"
)

// The check of the own listener fails for silence and for a closed port, and for
// nothing else.
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
			limit := time.Minute
			if c.stuck {
				limit = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := askSelf(ctx, accepting(t, c.serve), nil)
			require.Equal(t, c.stuck, err != nil, "%v", err)
		})
	}
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		dead, err := net.ResolveTCPAddr("tcp", proctest.DeadAddress(t))
		require.NoError(t, err)
		require.ErrorIs(t, askSelf(t.Context(), dead, nil), syscall.ECONNREFUSED)
	})
	t.Run("no connection to be had", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, silent(&net.TCPAddr{}, os.NewSyscallError("socket", syscall.EMFILE)))
		require.NoError(t, silent(&net.TCPAddr{}, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}))
		require.NoError(t, silent(&net.TCPAddr{}, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EAGAIN)}), "no time-out, though it says so")
		require.Error(t, silent(&net.TCPAddr{}, os.NewSyscallError("connect", syscall.ECONNREFUSED)))
	})
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
		"one fails":           {checks: []func(context.Context) error{passes, fails}, stuck: "b: stuck"},
		"all fail":            {checks: []func(context.Context) error{fails, fails}, stuck: "a: stuck; b: stuck"},
		"stopping, all fail":  {checks: []func(context.Context) error{fails, fails}, stop: true, fed: 1},
		"nothing to ask, yet": {fed: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, fed := fedBy(io.Discard, time.Hour)
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

// A check that hangs holds up the feeding until it returns; status and log tell of both.
func TestWatchdogCheckThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log bytes.Buffer
		w, fed := fedBy(lockedWriter{&mu, &log}, 2*time.Second)
		logged := func() string {
			mu.Lock()
			defer mu.Unlock()
			return log.String()
		}
		ctx, end := context.WithCancel(t.Context())
		release, calls, ended := make(chan struct{}), atomic.Int64{}, make(chan struct{})
		w.add("passes", func(context.Context) error { return nil })
		w.add("hangs", func(context.Context) error { calls.Add(1); <-release; return nil })
		go func() { w.run(ctx); close(ended) }()
		time.Sleep(time.Minute)
		require.Equal(t, "hangs: no answer within 2s", w.stuck())
		require.EqualValues(t, 1, calls.Load())
		require.Zero(t, fed.Load())
		require.Contains(t, logged(), "a part of leafd is stuck")
		close(release)
		time.Sleep(time.Minute)
		require.Positive(t, fed.Load())
		require.Empty(t, w.stuck())
		require.Contains(t, logged(), "every part works again")
		require.Equal(t, 2, strings.Count(logged(), "\n"), "one line for each change: %s", logged())
		end()
		<-ended
	})
}

// Where systemd doesn't watch, nothing is checked.
func TestWatchdogSwitchedOff(t *testing.T) {
	t.Parallel()
	w := newWatchdog(&Notifier{}, zerolog.Nop(), 0)
	w.run(t.Context()) // returns at once: the context never ends
}

// fedBy returns a watchdog, and how often it has fed.
func fedBy(log io.Writer, round time.Duration) (*watchdog, *atomic.Int64) {
	fed := &atomic.Int64{}
	n := &Notifier{log: zerolog.Nop(), send: func(state string) error {
		if state == "WATCHDOG=1" {
			fed.Add(1)
		}
		return nil
	}}
	return newWatchdog(n, zerolog.New(log), watchdogRounds*round), fed
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
