package conn

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Config is what connections need, all of it but Memory.
type Config struct {
	// Base is the context of everything below the HTTP layer. It ends when requests in
	// flight are to be abandoned.
	Base context.Context //nolint:containedctx // a RequestCtx is none
	Log  zerolog.Logger
	// Registry gets the metrics of the server; GET /metrics shows all of it.
	Registry *prometheus.Registry
	// MaxConns is how many connections the listeners of the Public surface may have open
	// at once, all of them together. The Admin surface has AdminConns beside them, and
	// both have Guests more, which get one answer.
	MaxConns int
	// Memory is how many bytes the process may use; 0: it isn't known, and taken for plenty.
	Memory uint64
	// IdleTimeout is how long a connection may wait for its next request.
	IdleTimeout time.Duration
	// ReadTimeout is how long a request may take to arrive once it has begun,
	// and the first request of a connection from the accept on.
	ReadTimeout time.Duration
	// WriteTimeout is how long a client may take to make room for a response.
	WriteTimeout time.Duration
	// GuestTime is how long a connection beyond the limit may take to ask and to read its answer.
	GuestTime time.Duration
}

const (
	// HeaderBytes is the largest request line with headers; more gets 431.
	HeaderBytes = 8 << 10
	// DefaultGuestTime is as long as a connection lingers.
	DefaultGuestTime = lingerTime
	// Bytes is more than a connection takes while it waits for its client, with what the
	// kernel has of it: 18 KiB of HTTP, and up to 40 KiB of Redis for one that reads nothing.
	Bytes = 32 << 10
	// SecureBytes is that of one with TLS, which waits with 38 KiB.
	SecureBytes = 48 << 10
	// plentyOfMemory is what the bounds that are constants fit into.
	plentyOfMemory = 2 << 30
)

// Portion returns how much of what a process with plenty of memory may use this one may.
func (c *Config) Portion(of int64) int64 {
	if c.Memory == 0 || c.Memory >= plentyOfMemory {
		return of
	}
	return of * int64(c.Memory) / plentyOfMemory
}

// Sampled returns log for lines that clients can cause at will: five in ten seconds, and
// no more.
func Sampled(log zerolog.Logger) zerolog.Logger {
	return log.Sample(&zerolog.BurstSampler{Burst: 5, Period: 10 * time.Second})
}

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

	// Surfaces is their number.
	Surfaces = iota
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

// Of returns the connection of a request that isn't a guest's.
func Of(nc net.Conn) *Conn {
	return nc.(*Conn) //nolint:forcetypeassert // a listener accepts no other
}

// Surface returns the surface of the connection.
func (c *Conn) Surface() Surface { return c.l.surface }

// SurfaceOf returns the surface of a connection; Public where it isn't known.
func SurfaceOf(nc net.Conn) Surface {
	if c, ok := nc.(*Conn); ok {
		return c.l.surface
	}
	return Public
}

// Register registers metrics in reg, and returns its error.
func Register(reg prometheus.Registerer, metrics ...prometheus.Collector) error {
	for _, m := range metrics {
		if err := reg.Register(m); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	return nil
}
