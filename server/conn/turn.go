package conn

import (
	"runtime"
	"time"

	"github.com/leafd/leafd/server/fair"
	"github.com/leafd/leafd/server/resp"
)

// requestsATurn is how many requests that arrived together are answered before other connections
// have their turn.
const requestsATurn = resp.CommandsATurn

// Turn is called for each request. It keeps:
//
//  1. A connection that sends many requests at once gives way to the others after
//     requestsATurn of them, and waits for a turn then, which goes round by address: no more
//     of them than there are processors go on.
//  2. It has no turn while it waits for its client, or for another turn.
func (c *Conn) Turn() {
	if c.requests++; c.requests > requestsATurn {
		c.NextTurn()
	}
}

// NextTurn takes a turn for the next requestsATurn requests.
func (c *Conn) NextTurn() {
	c.requests = 1
	c.giveRow()
	runtime.Gosched()
	a := c.l.admission
	if c.Take(a.rows, c.network, 1, c.l.readTimeout, a.done) {
		c.row.Store(a.rows)
	}
}

func (c *Conn) giveRow() {
	if c.row.Load() == nil { // as nearly always
		return
	}
	if rows := c.row.Swap(nil); rows != nil {
		rows.Give(1)
	}
}

// Take waits for a turn of weight for the connection, for most at most and until done, and reports whether it has one.
func (c *Conn) Take(turns *fair.Turns, of fair.Address, weight int64, most time.Duration, done <-chan struct{}) bool {
	c.giveRow()
	c.wait(waitsIdle)
	took := turns.Take(&c.waiter, of, weight, most, done)
	if !c.resume() && took {
		turns.Give(weight)
		return false
	}
	return took
}

// Hold counts an answer of size bytes, to a client of the address, until LetGo; it reports whether there is room.
func (c *Conn) Hold(unread *fair.Resource, of fair.Address, size int) bool {
	return unread.Enter(&c.unread, of, int64(size), c, int64(time.Since(c.l.started)))
}

// Grow counts an answer that was held as one of size bytes, whether there is room or not.
func (c *Conn) Grow(unread *fair.Resource, size int) { unread.Grow(&c.unread, int64(size)) }

// LetGo counts the answer no more.
func (c *Conn) LetGo(unread *fair.Resource) { unread.Leave(&c.unread) }
