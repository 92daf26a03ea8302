package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/leafd/leafd/test/bench/internal/figures"
)

// errAnswer is returned when a server answers with an error, or with what isn't its
// protocol's.
var errAnswer = errors.New("not the answer asked for")

// config is a load.
type config struct {
	addr    string
	request []byte // of one ID
	depth   int    // requests in one write
	conns   int
	during  time.Duration
}

// load puts the load on. Any connection that fails ends it.
func load(ctx context.Context, cfg config) (r figures.Load, err error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.during+time.Minute)
	defer cancel()
	l, err := open(cfg)
	defer l.close()
	if err != nil {
		return r, err
	}
	start := time.Now()
	for i := range l.conns {
		if err := l.send(&l.conns[i], 0); err != nil {
			return r, err
		}
	}
	events := make([]unix.EpollEvent, cfg.conns)
	for loaded := cfg.conns; loaded > 0; {
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		n, err := unix.EpollWait(l.poll, events, int(time.Second.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return r, os.NewSyscallError("epoll_wait", err)
		}
		for _, e := range events[:max(n, 0)] {
			c := &l.conns[e.Fd]
			whole, err := l.receive(c)
			if err != nil {
				return r, err
			}
			if !whole {
				continue
			}
			now := time.Since(start)
			l.took = append(l.took, now-c.sent)
			if now >= cfg.during {
				loaded--
			} else if err := l.send(c, now); err != nil {
				return r, err
			}
		}
	}
	slices.Sort(l.took)
	return figures.Load{
		Requests: float64(len(l.took) * cfg.depth), Elapsed: time.Since(start), P50: l.took[len(l.took)/2], P99: l.took[len(l.took)*99/100],
	}, nil
}

// loader is a load under way: one loop over all connections, with no more between it and the
// kernel than it needs, since what is to be measured is the server.
type loader struct {
	cfg      config
	pipeline []byte
	poll     int // of epoll
	conns    []conn
	took     []time.Duration // of each pipeline
}

type conn struct {
	fd   int
	left int           // answers that are missing
	sent time.Duration // since the start
	buf  []byte        // the beginning of an answer
}

// open connects. The loader is to be closed, with an error too.
func open(cfg config) (*loader, error) {
	l := &loader{cfg: cfg, pipeline: bytes.Repeat(cfg.request, cfg.depth), poll: -1}
	addr, err := netip.ParseAddrPort(cfg.addr)
	if err != nil {
		return l, fmt.Errorf("%w", err)
	}
	if l.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return l, os.NewSyscallError("epoll_create1", err)
	}
	for i := range cfg.conns {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return l, os.NewSyscallError("socket", err)
		}
		l.conns = append(l.conns, conn{fd: fd, buf: make([]byte, 0, 64<<10)})
		if err := errors.Join(
			unix.Connect(fd, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}),
			unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
			unix.SetNonblock(fd, true),
			unix.EpollCtl(l.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}),
		); err != nil {
			return l, fmt.Errorf("connection %d to %s: %w", i, addr, err)
		}
	}
	return l, nil
}

func (l *loader) close() {
	for _, c := range l.conns {
		_ = unix.Close(c.fd) // its answers have come
	}
	if l.poll >= 0 {
		_ = unix.Close(l.poll)
	}
}

// send sends a pipeline.
func (l *loader) send(c *conn, now time.Duration) error {
	n, err := call(unix.SYS_SENDTO, c.fd, l.pipeline, unix.MSG_NOSIGNAL)
	if err != nil {
		return os.NewSyscallError("sendto", err)
	}
	if n < len(l.pipeline) {
		return fmt.Errorf("%d of %d bytes were taken", n, len(l.pipeline))
	}
	c.sent, c.left = now, l.cfg.depth
	return nil
}

// receive reports whether all answers are there.
func (l *loader) receive(c *conn) (bool, error) {
	if cap(c.buf)-len(c.buf) < 4<<10 {
		c.buf = append(make([]byte, 0, 2*cap(c.buf)), c.buf...)
	}
	n, err := call(unix.SYS_RECVFROM, c.fd, c.buf[len(c.buf):cap(c.buf)], 0)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return false, nil
	case err != nil:
		return false, os.NewSyscallError("recvfrom", err)
	case n == 0:
		return false, fmt.Errorf("%w", io.ErrUnexpectedEOF)
	}
	c.buf = c.buf[:len(c.buf)+n]
	at := 0
	for c.left > 0 {
		n, err := frame(c.buf[at:])
		if err != nil {
			return false, err
		}
		if n == 0 {
			break
		}
		at += n
		c.left--
	}
	c.buf = c.buf[:copy(c.buf[:cap(c.buf)], c.buf[at:])]
	return c.left == 0, nil
}

// call is a system call that doesn't block: Go's scheduler is not told.
func call(trap uintptr, fd int, p []byte, flags uintptr) (int, error) {
	n, _, errno := unix.RawSyscall6(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), flags, 0, 0) //nolint:gosec // as package unix does; p lives until the call ends
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// frame returns how long the answer at the beginning of b is: of HTTP with 200 and a body, or
// of Redis' protocol a number or an array of numbers; 0: it isn't whole.
func frame(b []byte) (int, error) {
	at := bytes.IndexByte(b, '\n') + 1
	if at == 0 {
		return 0, nil
	}
	numbers := 0
	switch b[0] {
	case ':':
	case '*':
		var err error
		if numbers, err = strconv.Atoi(string(bytes.TrimSpace(b[1:at]))); err != nil || numbers < 0 {
			return 0, fmt.Errorf("%w: length %q", errAnswer, b[:at])
		}
	case 'H':
		return frameHTTP(b)
	default:
		return 0, fmt.Errorf("%w: %q", errAnswer, b[:at])
	}
	for range numbers {
		end := bytes.IndexByte(b[at:], '\n')
		if end < 0 {
			return 0, nil
		}
		if b[at] != ':' {
			return 0, fmt.Errorf("%w: %q", errAnswer, b[at:at+end])
		}
		at += end + 1
	}
	return at, nil
}

func frameHTTP(b []byte) (int, error) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return 0, nil
	}
	_, after, _ := bytes.Cut(b[:end+2], []byte("\r\nContent-Length: "))
	length, _, _ := bytes.Cut(after, []byte("\r\n"))
	body, err := strconv.Atoi(string(length))
	if err != nil || body < 1 || !bytes.HasPrefix(b, []byte("HTTP/1.1 200 ")) {
		return 0, fmt.Errorf("%w: %q", errAnswer, b[:end])
	}
	if whole := end + 4 + body; whole <= len(b) {
		return whole, nil
	}
	return 0, nil
}
