package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
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
	works := func(context.Context) error { return nil }
	stuck := func(context.Context) error { return errors.New("a loop is stuck") }
	for name, c := range map[string]struct {
		check    func(context.Context) error
		stopping bool
		told     []string
	}{
		"works":           {works, false, []string{"WATCHDOG=1"}},
		"stuck":           {stuck, false, []string{"STATUS=STUCK: a loop is stuck"}},
		"stuck, stopping": {stuck, true, []string{"WATCHDOG=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, told := listening()
			n.stopping = c.stopping
			n.watch(t.Context(), time.Hour, c.check)
			require.Equal(t, c.told, *told)
		})
	}
}

// A check that hangs holds up the feeding until it returns.
func TestWatchdogCheckThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, told := listening()
		release, ended := make(chan struct{}), make(chan struct{})
		go func() {
			n.watch(t.Context(), 2*time.Second, func(ctx context.Context) error {
				<-ctx.Done()
				<-release
				return nil
			})
			close(ended)
		}()
		time.Sleep(time.Minute)
		require.Empty(t, *told)
		close(release)
		<-ended
		require.Equal(t, []string{"WATCHDOG=1"}, *told)
	})
}

// listening returns a Notifier, and what it has told.
func listening() (*Notifier, *[]string) {
	told := &[]string{}
	return &Notifier{log: zerolog.Nop(), send: func(state string) error {
		*told = append(*told, state)
		return nil
	}}, told
}
