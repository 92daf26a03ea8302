package loadtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/leafd/leafd/internal/loadtest/unique"
)

// client is one connection's worth of load.
type client struct {
	run     *run
	number  int
	target  int // index
	rec     *recorder
	conn    *conn // nil: none
	asked   int64 // requests so far
	refused int   // connections in a row that could not be made
	turns   []time.Duration
	text    []byte
	ids     []int64
}

// key is the index of the key that the client asks for n requests after the last one.
func (c *client) key(n int) int {
	begin := int64(c.number / len(c.run.targets)) // each key of each daemon, where there are clients enough
	return int((begin + c.asked + int64(n)) % int64(len(c.run.cfg.Keys)))
}

// requests are the bytes of the next n requests.
func (c *client) requests(n int) []byte {
	if n == 1 {
		return c.run.requests[c.target][c.key(0)]
	}
	c.text = c.text[:0]
	for i := range n {
		c.text = append(c.text, c.run.requests[c.target][c.key(i)]...)
	}
	return c.text
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
	c.conn = newConn(raw, c.run.schedule.now())
	c.run.conns.add(c.conn)
	return nil
}

func (c *client) disconnect() {
	if c.conn != nil {
		c.run.conns.remove(c.conn)
		_ = c.conn.Close() // its requests have been recorded: there is nothing to report
		c.conn = nil
	}
}

// loop sends requests until there are no more turns.
func (c *client) loop(ctx context.Context) {
	defer c.disconnect()
	for {
		var ok bool
		if c.turns, ok = c.run.schedule.next(ctx, c.turns[:0], max(1, c.run.cfg.Pipeline)); !ok {
			return
		}
		c.burst(ctx)
		if c.refused > 0 && c.run.cfg.Rate == 0 {
			// Nothing else holds a closed loop back from asking a dead
			// port a hundred thousand times a second.
			wait := min(10*time.Millisecond<<min(c.refused, 10), 500*time.Millisecond)
			if c.run.schedule.clk.Sleep(ctx, wait) != nil {
				return
			}
		}
	}
}

// burst sends the requests of c.turns together and records what became of each.
func (c *client) burst(ctx context.Context) {
	o := c.open(ctx, c.requests(len(c.turns)))
	for i, turn := range c.turns {
		if i > 0 {
			o = c.follow(o, i)
		}
		o.turn = turn
		c.note(&o)
	}
	if c.conn != nil && !o.ended {
		c.conn.used = o.done
	}
	if o.ended || o.err != nil || o.last {
		c.disconnect()
	}
}

// open sends requests, on a new connection where there is none or it was closed
// meanwhile, and reads the first answer.
func (c *client) open(ctx context.Context, requests []byte) outcome {
	o := outcome{sent: c.run.schedule.now()}
	if c.conn == nil {
		if o.err = c.connect(ctx); o.err != nil {
			c.unconnected(&o)
			return o
		}
	}
	c.ask(&o, requests)
	if o.err != nil && c.conn.closedWhileIdle(o.err, o.sent) {
		c.disconnect()
		o.reconnected = 1
		if o.err = c.connect(ctx); o.err != nil {
			c.unconnected(&o)
		} else {
			c.ask(&o, requests)
		}
	}
	return o
}

// follow returns the outcome of request i of a burst, of which last was the one before:
// on a connection that broke, or that the daemon wanted to end with that, there is no
// more to come.
func (c *client) follow(last outcome, i int) outcome {
	o := outcome{sent: last.sent, done: last.done, err: last.err, unsent: last.unsent, ended: last.ended}
	switch {
	case o.ended || o.err != nil:
	case last.last:
		o.err, o.last = io.EOF, true
	default:
		o.answer, o.err = c.conn.receive(i < len(c.turns)-1)
		o.done = c.run.schedule.now()
	}
	return o
}

// unconnected completes the outcome of a request that found no connection. It isn't
// recorded where the end of the run kept the connection from being made.
func (c *client) unconnected(o *outcome) {
	o.done = c.run.schedule.now()
	o.unsent = true
	o.ended = c.run.schedule.ended.Load() > 0
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

// ask sends requests on the connection there is, and reads the first answer.
func (c *client) ask(o *outcome, requests []byte) {
	s := c.run.schedule
	if o.err = c.conn.arm(o.sent, c.run.cfg.Timeout); o.err == nil {
		// Once sending is ended, deadlines are the run's.
		if o.ended = s.ended.Load() > 0; o.ended {
			return
		}
		if o.err = c.conn.send(requests); o.err == nil {
			o.answer, o.err = c.conn.receive(len(c.turns) > 1)
		}
	}
	o.done = s.now()
}

// note records an outcome.
func (c *client) note(o *outcome) {
	if o.ended {
		return
	}
	journal := c.key(0) % max(1, len(c.rec.lanes))
	c.asked++
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
		if err := r.lanes[journal].Add(place, ids); err != nil {
			c.run.abort(err)
		}
	}
	switch {
	case o.err != nil && c.run.schedule.ended.Load() > 0 && transportCode(o.err) == "timeout":
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
		r.answeredLocked(o.turn, o.sent, o.done)
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
