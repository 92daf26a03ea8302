package ids

import (
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/server/conn"

	"github.com/leafd/leafd/segment"
)

// client is a connection with what its requests leave to the next one. The goroutine that serves it uses it alone.
type client struct {
	*conn.Conn
	digits [maxDigits]byte // the ID of the response being written
	tag    *segment.Tag    // the one asked for last
	bearer lastBearer
	// answered counts a request for IDs when its response is written.
	answered answered
}

// maxDigits is the length of the longest int64 in decimal, with its sign.
const maxDigits = 20

// NewClient returns the state of a connection.
func NewClient(c *conn.Conn) conn.State { return &client{Conn: c} }

// Written implements State.
func (c *client) Written() { c.answered.written() }

// clientOf returns the client of a request that isn't a guest's.
func clientOf(ctx *fasthttp.RequestCtx) *client {
	return conn.Of(ctx.Conn()).State.(*client) //nolint:forcetypeassert // NewClient made it
}
