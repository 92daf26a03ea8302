package server

import (
	"context"
	"net"
	"testing"

	"github.com/leafd/leafd/server/conn"

	"github.com/stretchr/testify/require"
)

// late is a listener that accepts a connection which came just before it was closed.
type late struct {
	net.Listener
	closing chan struct{}
	nc      net.Conn
}

func (l *late) Accept() (net.Conn, error) {
	<-l.closing
	if nc := l.nc; nc != nil {
		l.nc = nil
		return nc, nil
	}
	return nil, net.ErrClosed
}

func (l *late) Close() error { close(l.closing); return l.Listener.Close() }

// Also of a connection that is accepted while the listener closes.
func TestRedisStopAwaitsTheLastOne(t *testing.T) {
	for range 3 {
		s := newServer(t)
		ln := listenTCP(t)
		client, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		nc, err := ln.Accept()
		require.NoError(t, err)
		send(t, client, commands("INCR order\r\n"))
		served := make(chan error, 1)
		l := &late{Listener: ln, closing: make(chan struct{}), nc: nc}
		go func() { served <- s.Serve(l, conn.Redis) }()
		for {
			s.mu.Lock()
			n := len(s.fronts)
			s.mu.Unlock()
			if n > 0 {
				break
			}
		}
		require.NoError(t, s.Shutdown(context.Background()))
		require.NoError(t, <-served)
		buf := make([]byte, 100)
		n, err := client.Read(buf)
		require.NoError(t, err)
		require.Equal(t, ":1\r\n", string(buf[:n]))
		require.NoError(t, client.Close())
	}
}
