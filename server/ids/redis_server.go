package ids

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/server/resp"
)

// RedisServer serves the Redis protocol on one listener, a goroutine for each connection.
// What HTTP promises about connections its listener
// keeps here, too. It keeps:
//
//  1. Once the server drains, a connection ends after what it has asked is answered,
//     as one of HTTP does. When the listener closes, those that wait have freshGrace for
//     commands that are on their way; what is not there whole by then has used no ID.
//  2. A connection is closed so that its client reads the last answers first.
type RedisServer struct {
	s        *Server
	accepted uint64         // Serve's: connections
	clients  sync.WaitGroup // and Serve, which may accept one while the listener closes
}

// NewRedisServer returns what serves s in the Redis protocol.
func NewRedisServer(s *Server) *RedisServer {
	r := &RedisServer{s: s}
	r.clients.Add(1) // of Serve: a connection that it adds is never the first while a goroutine waits
	return r
}

// Serve implements server.
func (r *RedisServer) Serve(ln net.Listener) error {
	defer r.clients.Done()
	for {
		nc, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		r.accepted++
		client := r.s.newRedisClient(nc.(*conn.Conn).Client.(*client), r.accepted) //nolint:forcetypeassert // a listener of ours accepts no other
		r.clients.Go(client.serve)
	}
}

// ShutdownWithContext implements server. The listener is closed already.
func (r *RedisServer) ShutdownWithContext(ctx context.Context) error {
	served := make(chan struct{})
	go func() {
		defer close(served)
		r.clients.Wait()
	}()
	select {
	case <-served:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RefuseRedisGuest answers a connection beyond the limit: a client
// of the Redis protocol reads what it didn't ask for.
func (s *Server) RefuseRedisGuest(nc net.Conn) {
	s.RedisFailed(reply.ErrOverloaded.Redis())
	if _, err := nc.Write(resp.AppendError(nil, reply.ErrOverloaded.Redis(), "too many connections are open already")); err == nil {
		conn.Drain(nc)
	}
}
