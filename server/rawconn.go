//go:build linux

package server

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// rawConn reads and writes a socket with less around it than package net has, for 4 % of the
// CPU of a Redis command and 2 % of a pipelined request: by recvfrom and sendto, which the
// kernel doesn't take through its file layer, and without telling Go's scheduler, since a
// socket of net's never blocks. It keeps:
//
//  1. Deadlines, Close and waiting are net's. Where hold never has to wait, a deadline
//     is seen within heldReads.
//  2. What net reports as an error is one here, too.
//  3. While hold has the socket, Close waits for what runs: its descriptor
//     is not given to another file before that.
//
// One goroutine reads and writes; any may call Close.
type rawConn struct {
	net.Conn
	raw         syscall.RawConn
	read, write func(fd uintptr) bool // made once: a closure for each call would be on the heap
	held        bool                  // hold has the socket
	fd          uintptr               // of a socket that is held
	reads       int                   // since hold took it, or last waited
	closing     atomic.Bool

	p   []byte // of the call
	n   int
	err error
}

// heldReads is how often is read from a socket that is held before package net is asked again:
// only it knows deadlines, and a client that sends without a pause is never waited for.
const heldReads = 64

// hold calls serve, which reads and writes, and again each time that something may be there
// after it has returned errNothingYet. served is false where that has ended, by a deadline or
// by Close: the next Read says so. The socket is taken from package net once instead of twice a
// command, for 3 % of the CPU of one.
func (c *rawConn) hold(serve func() error) (served bool, err error) {
	defer func() { c.held = false }()
	for served, err = true, errNothingYet; served && errors.Is(err, errNothingYet); {
		served = nil == c.raw.Read(func(fd uintptr) bool {
			c.fd, c.held, c.reads = fd, true, 0
			err = serve()
			return c.reads == heldReads || !errors.Is(err, errNothingYet)
		})
	}
	return served, err
}

// Close is net.Conn's.
func (c *rawConn) Close() error {
	c.closing.Store(true)
	return c.Conn.Close()
}

// newRawConn returns nc with its socket's own Read and Write, or nc where it has none.
func newRawConn(nc net.Conn) net.Conn {
	socket, ok := nc.(syscall.Conn)
	if !ok {
		return nc
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nc // it is closed: net says so
	}
	c := &rawConn{Conn: nc, raw: raw}
	c.read, c.write = c.tryRead, c.tryWrite
	return c
}

// NetConn returns the connection below.
func (c *rawConn) NetConn() net.Conn { return c.Conn }

// Read is net.Conn's.
func (c *rawConn) Read(p []byte) (int, error) {
	c.p, c.n, c.err = p, 0, nil
	var err error
	if !c.held {
		err = c.raw.Read(c.read)
	} else if c.closing.Load() {
		err = net.ErrClosed
	} else if c.reads == heldReads {
		err = errNothingYet
	} else if c.reads++; !c.tryRead(c.fd) {
		c.reads, err = 0, errNothingYet
	}
	c.p = nil
	if err == nil {
		err = c.err
	}
	if err == nil && c.n == 0 && len(p) > 0 {
		err = io.EOF
	}
	return c.n, err
}

// Write is net.Conn's.
func (c *rawConn) Write(p []byte) (int, error) {
	c.p, c.n, c.err = p, 0, nil
	var err error
	if !c.held || c.closing.Load() || !c.tryWrite(c.fd) {
		err = c.raw.Write(c.write)
	}
	c.p = nil
	if err == nil {
		err = c.err
	}
	return c.n, err
}

// tryRead returns false where nothing is there.
func (c *rawConn) tryRead(fd uintptr) bool {
	n, errno := c.call(unix.SYS_RECVFROM, fd, c.p, 0)
	if errno == unix.EAGAIN {
		return false
	}
	if errno != 0 {
		c.err = os.NewSyscallError("recvfrom", errno)
		return true
	}
	c.n = n
	return true
}

// tryWrite returns false where not all of it was taken.
func (c *rawConn) tryWrite(fd uintptr) bool {
	for c.n < len(c.p) {
		n, errno := c.call(unix.SYS_SENDTO, fd, c.p[c.n:], unix.MSG_NOSIGNAL)
		if errno == unix.EAGAIN {
			return false
		}
		if errno != 0 {
			c.err = os.NewSyscallError("sendto", errno)
			return true
		}
		c.n += n
	}
	return true
}
