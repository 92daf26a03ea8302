package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"
)

// Surface is the set of requests that a listener answers.
type Surface uint8

const (
	// Public is for clients that ask for IDs. With Config.AdminApart it has no lists, pages,
	// metrics and changes: they answer 404 not_found, as pprof always does there. What daemons
	// ask each other (/api/clock, /api/summary), /api/worker and the probes stay.
	Public Surface = iota
	// Admin is for operators: everything but IDs, and /debug/pprof.
	Admin
	// Redis is for clients that ask for IDs in the Redis protocol. Its connections are
	// counted together with those of Public.
	Redis

	surfaces = iota
)

// String returns the name in log lines.
func (s Surface) String() string {
	switch s {
	case Public:
		return "public"
	case Admin:
		return "admin"
	case Redis:
		return "redis"
	}
	return "surface " + strconv.Itoa(int(s))
}

// front is one listener with its own server, so that none waits for another's connections.
type front struct {
	listen *listener
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
func (s *Server) Serve(ln net.Listener, surface Surface) error {
	var f front
	var guest func(net.Conn)
	switch surface {
	case Public, Admin:
		handle := s.handle
		if surface == Admin {
			handle = s.handleAdmin
		}
		guests := s.newHTTP(s.handleGuest, false)
		f.serve, guest = s.newHTTP(handle, surface == Admin || !s.cfg.AdminApart), func(nc net.Conn) { s.serveGuest(guests, nc) }
	case Redis:
		f.serve, guest = newRedisServer(s), s.refuseRedisGuest
	default:
		return errors.Join(fmt.Errorf("no such %s", surface), ln.Close())
	}
	if surface == Admin && !s.cfg.AdminApart {
		return errors.Join(errors.New("an admin listener needs Config.AdminApart"), ln.Close())
	}
	s.mu.Lock()
	if s.down {
		s.mu.Unlock()
		return ln.Close()
	}
	f.listen = newListener(ln, surface, &s.cfg, s.admission, guest)
	switch {
	case surface == Admin:
		f.listen.places = Admin
	case ln.Addr().Network() == "unix":
		f.listen.places = localPlaces
		s.admission.reserveLocal(s.cfg.MaxConns)
	}
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
			f.listen.end()
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
	defer s.recovered(ctx)
	if s.draining.Load() {
		ctx.SetConnectionClose()
	}
	if !s.refuseMalformed(ctx) {
		s.slowAdmin(ctx)
	}
}

// surfaceOf returns the surface of a connection; Public where it isn't known.
func surfaceOf(nc net.Conn) Surface {
	if c, ok := nc.(*conn); ok {
		return c.l.surface
	}
	return Public
}
