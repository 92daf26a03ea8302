package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// connection is one of a crowd's.
type connection struct {
	net.Conn
	in  *bufio.Reader
	row *row
	end time.Time
}

// be is the crowd, for so long.
func (r *row) be(address string, during time.Duration) error {
	end, pause := time.Now().Add(during), 10*time.Millisecond
	if r.addresses > 0 {
		pause = time.Second // to take all places within 200 ms is not covered
	}
	var all sync.WaitGroup
	for n := range r.conns {
		from := net.ParseIP(crowdAddress)
		switch {
		case r.own:
			from = net.ParseIP(innocentAddress)
		case r.addresses > 0:
			from = net.IPv4(127, 1, byte(n>>8), byte(n))
		}
		all.Go(func() {
			for time.Now().Before(end) {
				if r.one(address, from, end) != nil {
					time.Sleep(pause)
				}
			}
		})
	}
	all.Wait()
	return nil
}

func (r *row) one(address string, from net.IP, end time.Time) error {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}, Deadline: end}
	nc, err := d.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer nc.Close() //nolint:errcheck // a crowd's
	if err := nc.SetDeadline(end); err != nil {
		return err
	}
	return r.do(&connection{Conn: nc, in: bufio.NewReaderSize(nc, 64<<10), row: r, end: end})
}

// answer reads one answer.
func (c *connection) answer() error {
	if c.row.port == portRedis {
		_, err := c.in.ReadSlice('\n')
		return err
	}
	size := int64(0)
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			_, _ = fmt.Sscan(string(value), &size) // else 0
		}
		if len(line) == 2 {
			_, err = io.CopyN(io.Discard, c.in, size)
			return err
		}
	}
}

// again sends a request, so many at once, and reads the answers, for as long as it may.
func again(request string, deep int) func(c *connection) error {
	return func(c *connection) error {
		for {
			if _, err := io.WriteString(c, strings.Repeat(request, deep)); err != nil {
				return err
			}
			for range deep {
				if err := c.answer(); err != nil {
					return err
				}
			}
		}
	}
}

func idle(c *connection) error {
	_, err := c.in.ReadByte()
	return err
}

func halfABody(c *connection) error {
	if _, err := io.WriteString(c, "POST /api/snowflake/get/x HTTP/1.1\r\nHost: x\r\nContent-Length: 65536\r\n\r\n"+strings.Repeat("x", 64_000)); err != nil {
		return err
	}
	return idle(c)
}

// halves completes each request after 8 s, with half of the next behind it.
func halves(c *connection) error {
	half := len(oneHTTP) / 2
	for rest := ""; ; rest = oneHTTP[half:] {
		if _, err := io.WriteString(c, rest+oneHTTP[:half]); err != nil {
			return err
		}
		if rest != "" {
			if err := c.answer(); err != nil {
				return err
			}
		}
		if err := c.pause(8 * time.Second); err != nil {
			return err
		}
	}
}

// pause waits, unless the daemon ends the connection.
func (c *connection) pause(d time.Duration) error {
	if err := c.SetReadDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	if _, err := c.in.Peek(1); err != nil && !isTimeout(err) {
		return err
	}
	return c.SetDeadline(c.end)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// small has the system keep little of what is not read.
func (c *connection) small() error {
	tcp, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return errors.ErrUnsupported
	}
	return tcp.SetReadBuffer(4 << 10)
}

// slowly reads each answer within 9 s.
func slowly(c *connection) error {
	if err := c.small(); err != nil {
		return err
	}
	for {
		if _, err := io.WriteString(c, largeHTTP); err != nil {
			return err
		}
		time.Sleep(8 * time.Second)
		if err := c.answer(); err != nil {
			return err
		}
	}
}

func unread(c *connection) error {
	if err := c.small(); err != nil {
		return err
	}
	if _, err := io.WriteString(c, largeHTTP); err != nil {
		return err
	}
	status := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(c, status); err != nil || string(status) != "HTTP/1.1 200" {
		return errors.Join(err, errors.New("refused"))
	}
	time.Sleep(9500 * time.Millisecond) // the daemon ends it after 10 s
	return nil
}

func handshake(c *connection) error {
	return tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake() //nolint:gosec,noctx // a crowd's; its connection has an end
}

// recorded is the first message of a handshake.
var recorded = sync.OnceValues(func() ([]byte, error) { //nolint:gochecknoglobals // as above
	client, server := net.Pipe()
	defer server.Close()                                                                      //nolint:errcheck // a pipe
	go func() { _ = tls.Client(client, &tls.Config{InsecureSkipVerify: true}).Handshake() }() //nolint:gosec // it ends with the pipe
	hello := make([]byte, 16<<10)
	n, err := server.Read(hello)
	return hello[:n], err
})

// replayed sends the recorded hello so often a second, which costs the client nothing.
func replayed(rate int) func(c *connection) error {
	return func(c *connection) error {
		next := time.Now().Add(time.Second / time.Duration(rate))
		hello, err := recorded()
		if err != nil {
			return err
		}
		if _, err := c.Write(hello); err != nil {
			return err
		}
		err = c.SetReadDeadline(next)
		if err == nil {
			_, err = c.in.ReadByte()
		}
		time.Sleep(time.Until(next))
		return err
	}
}
