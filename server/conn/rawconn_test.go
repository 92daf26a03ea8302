//go:build linux

package conn

import (
	"bytes"
	"io"
	"net"
	"os"
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
