package loadtest

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/leafd/leafd/loadtest/unique"
)

// client is one connection's worth of load.
type client struct {
	run     *run
	number  int
	target  int // index
	request []byte
	journal int // index
	rec     *recorder
	conn    *conn // nil: none
	asked   int64 // requests so far
	refused int   // connections in a row that could not be made
	ids     []int64
}

// connect makes a connection.
func (c *client) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.run.cfg.Timeout)
	defer cancel()
	raw, err := c.run.targets[c.target].dial(ctx)
	if err != nil {
		c.refused++
		return err
	}
	c.refused = 0
	c.conn = newConn(raw, c.run.pace.now())
	c.run.conns.add(c.conn)
	return nil
}

func (c *client) disconnect() {
	if c.conn != nil {
		c.run.conns.remove(c.conn)
		_ = c.conn.Close() // nothing is to be told: its requests have theirs already
		c.conn = nil
	}
}

// loop sends requests until there are no more turns.
func (c *client) loop(ctx context.Context) {
	defer c.disconnect()
	for {
		turn, ok := c.run.pace.next(ctx)
		if !ok {
			return
		}
		c.turn(ctx, turn)
		if c.refused > 0 && c.run.cfg.Rate == 0 {
			// Nothing else holds a closed loop back from asking a dead
			// port a hundred thousand times a second.
			wait := min(10*time.Millisecond<<min(c.refused, 10), 500*time.Millisecond)
			if c.run.pace.clk.Sleep(ctx, wait) != nil {
				return
			}
		}
	}
}

// turn sends one request and records its outcome.
func (c *client) turn(ctx context.Context, turn time.Duration) {
	o := outcome{turn: turn, sent: c.run.pace.now()}
	c.asked++
	if c.conn == nil {
		if o.err = c.connect(ctx); o.err != nil {
			c.unconnected(&o)
			c.note(&o)
			return
		}
	}
	c.ask(&o)
	if o.err != nil && c.conn.closedWhileIdle(o.err, o.sent) {
		c.disconnect()
		o.reconnected = 1
		if o.err = c.connect(ctx); o.err != nil {
			c.unconnected(&o)
		} else {
			c.ask(&o)
		}
	}
	if c.conn != nil && !o.ended {
		c.conn.used = o.done
	}
	c.note(&o)
	if o.ended || o.err != nil || o.last {
		c.disconnect()
	}
}

// unconnected completes the outcome of a request that found no connection: of one
// that the end of the run kept from being made nothing is told.
func (c *client) unconnected(o *outcome) {
	o.done = c.run.pace.now()
	o.unsent = true
	o.ended = c.run.pace.ended.Load() > 0
}

// outcome is what became of a request.
type outcome struct {
	turn, sent, done time.Duration
	answer
	err         error
	unsent      bool // there was no connection to send it on
	ended       bool // the run was ended before it was sent
	reconnected int64
}

// ask sends the request on the connection there is.
func (c *client) ask(o *outcome) {
	p := c.run.pace
	if o.err = c.conn.arm(o.sent, c.run.cfg.Timeout); o.err == nil {
		// Once sending is ended, deadlines are the run's.
		if o.ended = p.ended.Load() > 0; o.ended {
			return
		}
		o.answer, o.err = c.conn.exchange(c.request)
	}
	o.done = p.now()
}

// note records an outcome.
func (c *client) note(o *outcome) {
	if o.ended {
		return
	}
	place := unique.Place{Client: c.run.cfg.FirstClient + c.number, Request: c.asked, At: o.done}
	ids, good := c.ids[:0], true
	if o.status == http.StatusOK {
		ids, good = parseIDs(ids, o.body, o.whole)
		c.ids = ids
	}
	asked := int64(c.run.cfg.Batch)

	r := c.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := &r.targets[c.target]
	counts.Sent++
	counts.Reconnected += o.reconnected
	counts.IDs += int64(len(ids))
	c.checkGrowingLocked(place, ids)
	if len(ids) > 0 && len(r.lanes) > 0 {
		if err := r.lanes[c.journal].Add(place, ids); err != nil {
			c.run.abort(err)
		}
	}
	switch {
	case o.err != nil && c.run.pace.ended.Load() > 0 && transportCode(o.err) == "timeout":
		counts.Unfinished++
		counts.Unknown += asked - int64(len(ids))
	case o.err != nil:
		counts.Failed++
		if !o.unsent {
			counts.Unknown += max(0, asked-int64(len(ids)))
		}
		r.failedLocked(0, transportCode(o.err), o.err.Error)
	case o.status != http.StatusOK:
		counts.Failed++
		r.failedLocked(o.status, codeOf(o.body), func() string { return sample(o.body) })
	case !good || int64(len(ids)) != asked:
		counts.Failed++
		r.failedLocked(o.status, "wrong_answer", func() string { return sample(o.body) })
		r.wrong.add(place, func() string {
			return fmt.Sprintf("%d IDs for %d asked: %s", len(ids), asked, sample(o.body))
		})
	default:
		counts.Answered++
		r.tookLocked(o.turn, o.sent, o.done)
	}
}

// checkGrowingLocked checks that the IDs of an answer grow, and that they follow
// on those before on the connection where that is promised; c.rec.mu is held.
func (c *client) checkGrowingLocked(place unique.Place, ids []int64) {
	if len(ids) == 0 {
		return
	}
	across := c.run.cfg.Growing && c.run.cfg.Mode == Snowflake
	if across && c.conn.any && ids[0] <= c.conn.last {
		c.fell(place, c.conn.last, ids[0])
	}
	for i := 1; i < len(ids); i++ {
		if ids[i] <= ids[i-1] {
			c.fell(place, ids[i-1], ids[i])
		}
	}
	c.conn.last, c.conn.any = ids[len(ids)-1], true
}

func (c *client) fell(place unique.Place, before, id int64) {
	c.rec.order.add(place, func() string { return fmt.Sprintf("%d after %d", id, before) })
}
