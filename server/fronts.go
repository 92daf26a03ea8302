package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/server/resp"
	"github.com/leafd/leafd/server/views"
)

// front is one listener with its own server, so that none waits for another's connections.
type front struct {
	listen *conn.Listener
	serve  server
}

// server serves what a listener accepts; a fasthttp.Server, or a redisServer.
type server interface {
	// Serve returns nil once ln is closed.
	Serve(ln net.Listener) error
	// ShutdownWithContext returns once what was asked is answered, or ctx has ended.
	ShutdownWithContext(ctx context.Context) error
}

// Serve accepts connections from ln until Shutdown, and then returns nil; it returns an
// error when ln fails permanently. It always closes ln. It may be called for several
// listeners of either surface. Accept of a TLS listener returns a *tls.Conn before its
// handshake, which shares the read time-out with the first request. Shutdown must be
// called after Serve in any case.
func (s *Server) Serve(ln net.Listener, surface conn.Surface) error {
	var f front
	var serving conn.Serving
	switch surface {
	case conn.Public, conn.Admin:
		handle := s.ids.Handle
		if surface == conn.Admin {
			handle = s.handleAdmin
		}
		guests := s.ids.HTTP(s.handleGuest, false)
		f.serve, serving = s.ids.HTTP(handle, surface == conn.Admin || !s.cfg.AdminApart), conn.Serving{
			Client: ids.NewClient, Secure: reply.ErrTLSRequired.Whole(),
			Guest: func(nc net.Conn) { _ = guests.ServeConn(nc) },
		} // a client's mistakes
	case conn.Redis:
		f.serve, serving = ids.NewRedisServer(s.ids), conn.Serving{Client: ids.NewClient, Guest: s.ids.RefuseRedisGuest, Secure: resp.AppendError(nil, reply.ErrTLSRequired.Redis(), "this port speaks TLS")}
	default:
		return errors.Join(fmt.Errorf("no such %s", surface), ln.Close())
	}
	if surface == conn.Admin && !s.cfg.AdminApart {
		return errors.Join(errors.New("an admin listener needs Config.AdminApart"), ln.Close())
	}
	s.mu.Lock()
	if s.down {
		s.mu.Unlock()
		return ln.Close()
	}
	f.listen = s.admission.Listen(ln, surface, serving)
	if s.fronts == nil {
		s.keeping.Go(s.keepHistory)
	}
	s.fronts = append(s.fronts, f)
	s.mu.Unlock()

	err := f.serve.Serve(f.listen)
	if cerr := f.listen.Close(); err == nil && cerr != nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("accepting on %s: %w", ln.Addr(), err)
	}
	return nil
}

// Shutdown stops accepting on all listeners at once, closes idle connections, and
// returns once the requests in flight are answered. When ctx ends first, it gives them up,
// closes their connections and returns ctx.Err().
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	s.mu.Lock()
	if !s.down {
		s.down = true
		close(s.ending)
		s.views.Stop()
	}
	fronts := s.fronts
	s.mu.Unlock()

	failed := make([]error, len(fronts))
	for i, f := range fronts {
		// fasthttp may not know the listener yet, if Serve has only just begun.
		failed[i] = f.listen.Close()
	}
	var all sync.WaitGroup
	for i, f := range fronts {
		all.Go(func() {
			if err := f.serve.ShutdownWithContext(ctx); err != nil {
				failed[i] = err
				s.giveUp() // what waits for an ID may hold its socket, and end waits for that
			}
			f.listen.End()
		})
	}
	all.Wait()
	s.keeping.Wait()
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("shutdown: %w", err)
	}
	return nil
}

// handleAdmin answers every request on the admin surface.
func (s *Server) handleAdmin(ctx *fasthttp.RequestCtx) {
	defer s.answers.Recovered(ctx)
	if s.answers.Draining() {
		ctx.SetConnectionClose()
	}
	if !s.ids.RefuseMalformed(ctx) {
		s.surfaces[conn.Admin](ctx)
	}
}

// keepHistory takes points until the server ends.
func (s *Server) keepHistory() {
	next := time.NewTicker(views.HistoryInterval)
	defer next.Stop()
	for {
		select {
		case <-s.ending:
			return
		case <-next.C:
			s.views.TakeHistory()
		}
	}
}
