//go:build linux

package server

import (
	"bytes"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is larger than the kernel's buffers arrives whole, and waiting, deadlines
// and ends are net's, on both kinds of sockets.
func TestRawConn(t *testing.T) {
	for _, ln := range []net.Listener{listenTCP(t), listenUnix(t)} {
		t.Run(ln.Addr().Network(), func(t *testing.T) {
			defer ln.Close()
			client, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
			require.NoError(t, err)
			defer func() { _ = client.Close() }()
			accepted, err := ln.Accept()
			require.NoError(t, err)
			c := newRawConn(accepted)
			require.IsType(t, (*rawConn)(nil), c)
			require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))

			large := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
			got := make(chan []byte)
			go func() {
				b := make([]byte, len(large))
				time.Sleep(20 * time.Millisecond) // the writer has to wait
				n, _ := io.ReadFull(client, b)
				got <- b[:n]
			}()
			n, err := c.Write(large)
			require.NoError(t, err)
			require.Equal(t, len(large), n)
			require.True(t, bytes.Equal(large, <-got))

			b := make([]byte, 10)
			go func() {
				time.Sleep(20 * time.Millisecond)
				_, _ = io.WriteString(client, "hello")
			}()
			n, err = c.Read(b)
			require.NoError(t, err)
			require.Equal(t, "hello", string(b[:n]))

			require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
			_, err = c.Read(b)
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.NoError(t, c.SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
			taken := 0
			for err = nil; err == nil; taken += n { // until the kernel's buffers are full
				n, err = c.Write(large)
			}
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)

			require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
			require.NoError(t, (*beneath[closesWrite](c)).CloseWrite())
			rest, err := io.ReadAll(client)
			require.NoError(t, err)
			require.Len(t, rest, taken, "nothing was lost")
			require.NoError(t, client.Close())
			_, err = c.Read(b)
			require.ErrorIs(t, err, io.EOF)
			_, err = c.Write(b)
			require.Error(t, err, "and no signal")
			require.NoError(t, c.Close())
			_, err = c.Read(b)
			require.ErrorIs(t, err, net.ErrClosed)
			_, err = c.Write(b)
			require.ErrorIs(t, err, net.ErrClosed)
		})
	}
}

// A socket is held: it waits for more, for room, for a deadline, and for
// Close, which waits for what runs.
func TestRawConnHeld(t *testing.T) {
	accept := func() (client net.Conn, c *rawConn) {
		ln := listenTCP(t)
		defer ln.Close()
		client, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		accepted, err := ln.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { _ = accepted.Close() })
		return client, newRawConn(accepted).(*rawConn)
	}
	held := func(c *rawConn, each func(b []byte) error) (served bool, err error) {
		b := make([]byte, 1<<16)
		return c.hold(func() error {
			for {
				n, err := c.Read(b)
				if err == nil {
					err = each(b[:n])
				}
				if err != nil {
					return err
				}
			}
		})
	}

	client, c := accept()
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	go func() {
		for sent := large; len(sent) > 0; sent = sent[1<<16:] {
			time.Sleep(time.Millisecond) // so that it has to wait, now and then
			_, _ = client.Write(sent[:1<<16])
		}
		_ = client.(*net.TCPConn).CloseWrite()
	}()
	echoed := make(chan []byte)
	go func() {
		time.Sleep(100 * time.Millisecond) // so that it has to wait for room
		b, _ := io.ReadAll(client)
		echoed <- b
	}()
	served, err := held(c, func(b []byte) error {
		_, err := c.Write(b)
		return err
	})
	require.True(t, served)
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, c.Close())
	require.True(t, bytes.Equal(large, <-echoed))

	_, c = accept()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	served, _ = held(c, nil)
	require.False(t, served)
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)

	client, c = accept() // a client that sends faster than is read: nothing is waited for
	send(t, client, strings.Repeat("x", 2000))
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	reads := 0
	served, _ = c.hold(func() error {
		for ; ; reads++ {
			if _, err := c.Read(make([]byte, 1)); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
	})
	require.False(t, served)
	require.Less(t, reads, 2000)

	client, c = accept()
	runs, end, closed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ended := make(chan error, 1)
	send(t, client, "x")
	go func() {
		_, err := held(c, func([]byte) error {
			close(runs)
			<-end
			for range 1000 { // Close has only just begun, perhaps
				if _, err := c.Write([]byte("x")); err != nil {
					return err
				}
				time.Sleep(time.Millisecond)
			}
			return nil
		})
		ended <- err
	}()
	<-runs
	go func() { closed <- c.Close() }()
	require.Eventually(t, c.closing.Load, time.Minute, time.Millisecond)
	time.Sleep(20 * time.Millisecond)
	require.Empty(t, closed, "it is held")
	close(end)
	err = <-ended
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorContains(t, err, "write")
	require.NoError(t, <-closed)

	_, c = accept()
	go func() {
		time.Sleep(20 * time.Millisecond)
		_ = c.Close()
	}()
	served, _ = held(c, nil)
	require.False(t, served)
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
}
