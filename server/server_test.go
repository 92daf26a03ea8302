package server

import (
	"context"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/snowflake"
)

func TestDrainServesAndClosesConnections(t *testing.T) {
	r := start(t, nil)
	c := r.dial()
	br := newReader(c)
	ask := func() (closes bool) {
		t.Helper()
		send(t, c, oneID)
		a := next(t, br)
		require.Equal(t, 200, a.status)
		return a.closes
	}
	require.False(t, ask())
	r.Drain()
	require.True(t, ask())
	requireClosed(t, c)
	require.Equal(t, 200, r.get(segmentPrefix+"order?n=10").status)
	r.flake.fail(snowflake.ErrStopped)
	r.get(snowflakePrefix+"x").requireError(t, 503, "draining")
	r.SetBackend(nil)
	r.get(snowflakePrefix+"x").requireError(t, 503, "draining")
}

func TestShutdownFinishesWhatIsInFlight(t *testing.T) {
	r := startEmpty(t, patient)
	r.flake.block, r.flake.begun = make(chan struct{}), make(chan struct{})
	r.SetBackend(r.newBackend())

	idle := r.dial()
	send(t, idle, oneID)
	require.Equal(t, 200, next(t, newReader(idle)).status)
	silent := r.dial()
	require.Eventually(t, func() bool { return r.admission.Total() == 2 }, time.Minute, time.Millisecond)

	busy := r.dial()
	send(t, busy, "GET /api/snowflake/get/x?n=5000 HTTP/1.1\r\nHost: x\r\n\r\n")
	<-r.flake.begun
	down := make(chan error, 1)
	go func() { down <- r.Shutdown(context.Background()) }()
	requireClosed(t, idle)
	requireClosed(t, silent)
	select {
	case err := <-down:
		require.Fail(t, "Shutdown did not wait for the request in flight", err)
	default:
	}
	close(r.flake.block)
	a := next(t, newReader(busy))
	require.True(t, a.closes)
	require.Equal(t, 200, a.status)
	require.Equal(t, 5000, strings.Count(a.body, "\n"))
	require.NoError(t, <-down)
	_, err := net.Dial("tcp", r.addr)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestShutdownGivesUpWithItsContext(t *testing.T) {
	r := startEmpty(t, patient)
	r.flake.block, r.flake.begun = make(chan struct{}), make(chan struct{})
	r.SetBackend(r.newBackend())
	busy := r.dial()
	send(t, busy, "GET /api/snowflake/get/x?n=5 HTTP/1.1\r\nHost: x\r\n\r\n")
	<-r.flake.begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, r.Shutdown(ctx), context.Canceled)
	requireClosed(t, busy)
	close(r.flake.block)
	require.Eventually(t, func() bool { return r.admission.Total() == 0 }, time.Minute, time.Millisecond)
}

func TestServeAndShutdownInAnyOrder(t *testing.T) {
	ctx := context.Background()
	s, err := New(testConfig(t.Output()))
	require.NoError(t, err)
	require.NoError(t, s.Shutdown(ctx))
	ln := listenTCP(t)
	require.NoError(t, s.Serve(ln, conn.Public))
	_, err = ln.Accept()
	require.ErrorIs(t, err, net.ErrClosed)

	for range 50 { // whichever comes first
		s, err := New(testConfig(t.Output()))
		require.NoError(t, err)
		served := make(chan error, 1)
		ln := listenTCP(t)
		go func() { served <- s.Serve(ln, conn.Public) }()
		require.NoError(t, s.Shutdown(ctx))
		require.NoError(t, <-served)
		require.NoError(t, s.Shutdown(ctx))
	}

	r := start(t, nil)
	for surface, why := range map[conn.Surface]string{conn.Admin: "AdminApart", 7: "surface 7"} {
		ln = listenTCP(t)
		require.ErrorContains(t, r.Serve(ln, surface), why)
		_, err = ln.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
	}
}

// flaky is a listener that fails as told before it accepts.
type flaky struct {
	net.Listener
	mu     sync.Mutex
	errs   []error
	failed int
}

func (f *flaky) Accept() (net.Conn, error) {
	f.mu.Lock()
	if f.failed < len(f.errs) {
		err := f.errs[f.failed]
		f.failed++
		f.mu.Unlock()
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
	}
	f.mu.Unlock()
	return f.Listener.Accept()
}

func TestAcceptErrorsThatPassAreWaitedOut(t *testing.T) {
	log := &lockedBuffer{}
	s, err := New(testConfig(log))
	require.NoError(t, err)
	ln := listenTCP(t)
	served := make(chan error, 1)
	go func() {
		served <- s.Serve(&flaky{Listener: ln, errs: []error{syscall.EMFILE, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED}}, conn.Public)
	}()
	resp, err := http.Get("http://" + ln.Addr().String() + "/healthz")
	require.NoError(t, err)
	require.Equal(t, 200, readAnswer(t, resp).status)
	http.DefaultClient.CloseIdleConnections()
	require.Equal(t, 1, strings.Count(log.String(), "can't accept"), "said once")
	require.ErrorIs(t, s.Serve(&flaky{Listener: listenTCP(t), errs: []error{syscall.EINVAL}}, conn.Public), syscall.EINVAL, "that stays")
	require.NoError(t, s.Shutdown(context.Background()))
	require.NoError(t, <-served)
}
