package conn

import (
	"net"
	"strconv"
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
