package loadtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// client is one connection's worth of load.
type client struct {
	run     *run
	number  int
	target  int   // index
	conn    *conn // nil: none
	asked   int64 // requests so far
	refused int   // connections in a row that could not be made
	turns   []time.Duration
	text    []byte
}

// key is the index of the key that the client asks for n requests after the last one.
func (c *client) key(n int) int {
	begin := int64(c.number / len(c.run.targets)) // each key of each daemon, where there are clients enough
	return int((begin + c.asked + int64(n)) % int64(len(c.run.cfg.Keys)))
}

// requests are the bytes of the requests of c.turns.
func (c *client) requests() []byte {
	c.text = c.text[:0]
	for i := range c.turns {
		c.text = append(c.text, c.run.requests[c.target][c.key(i)]...)
	}
	return c.text
}

// connect makes a connection.
func (c *client) connect(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, c.run.cfg.Timeout)
	defer cancel()
	raw, err := c.run.targets[c.target].dial(within)
	if err != nil {
		c.refused++
		return err
	}
	c.refused = 0
	c.conn = newConn(ctx, raw, c.run.schedule.now())
	return nil
}

func (c *client) disconnect() {
	if c.conn != nil {
		c.conn.close()
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

// outcome is what became of a request.
type outcome struct {
	turn, sent, done time.Duration
	answer
	err    error
	unsent bool // there was no connection to send it on
}

// burst sends the requests of c.turns together and records what became of each. A request
// that the end of the run kept from being sent isn't recorded.
func (c *client) burst(ctx context.Context) {
	o, sent := c.open(ctx)
	if !sent {
		return
	}
	for i, turn := range c.turns {
		if i > 0 {
			o = c.follow(o)
		}
		o.turn = turn
		c.note(ctx, &o)
	}
	if o.err != nil || o.last || c.conn.in.Buffered() > 0 { // nothing was asked that could be its answer
		c.disconnect()
		return
	}
	c.conn.used = o.done
}

// idleTimeouts is for how many time-outs a connection may be unused, 30 seconds of leafd bench. The
// daemon closes those that are idle for 75 seconds, and a request that met that would count as failed.
const idleTimeouts = 3

// open sends the requests of c.turns, on a new connection where there is none or it was
// unused for long, and reads the first answer. sent is false when the run has ended.
func (c *client) open(ctx context.Context) (o outcome, sent bool) {
	o.sent = c.run.schedule.now()
	if c.conn != nil && o.sent-c.conn.used > idleTimeouts*c.run.cfg.Timeout {
		c.disconnect()
	}
	if c.conn == nil {
		if o.err = c.connect(ctx); o.err != nil {
			o.done, o.unsent = c.run.schedule.now(), true
			return o, ctx.Err() == nil
		}
	}
	o.err = c.conn.arm(o.sent, c.run.cfg.Timeout)
	if ctx.Err() != nil { // from now on, deadlines are the run's
		return o, false
	}
	if o.err == nil {
		_, o.err = c.conn.raw.Write(c.requests())
	}
	if o.err == nil {
		o.answer, o.err = c.conn.read()
	}
	o.done = c.run.schedule.now()
	return o, true
}

// follow returns the outcome of the next request of a burst, of which last was the one
// before: on a connection that broke, or that the daemon wanted to end with that, there
// is no more to come.
func (c *client) follow(last outcome) outcome {
	o := outcome{sent: last.sent, done: last.done, err: last.err, unsent: last.unsent}
	switch {
	case o.err != nil:
	case last.last:
		o.err = io.EOF
	default:
		came := c.conn.in.Buffered() > 0 // with the one before, or at least its beginning
		if o.answer, o.err = c.conn.read(); !came || c.conn.in.Buffered() == 0 {
			o.done = c.run.schedule.now()
		}
	}
	return o
}

// note records an outcome.
func (c *client) note(ctx context.Context, o *outcome) {
	set := c.run.cfg.set(c.key(0))
	c.asked++
	place := Place{Client: c.run.cfg.FirstClient + c.number, Request: c.asked, At: o.done}
	if len(o.ids) > 0 {
		c.run.take(set, place, o.ids)
	}
	asked := int64(c.run.cfg.Batch)

	r := c.run.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := &r.targets[c.target]
	counts.Sent++
	came := int64(len(o.ids))
	counts.IDs += came
	c.checkGrowingLocked(place, o.ids)
	switch {
	case o.err != nil && ctx.Err() != nil && transportCode(o.err) == "timeout":
		counts.Unfinished++
		counts.Unknown += asked
	case o.err != nil:
		counts.Failed++
		if !o.unsent {
			counts.Unknown += asked
		}
		r.failedLocked(0, transportCode(o.err), o.err.Error)
	case o.status != http.StatusOK:
		counts.Failed++
		r.failedLocked(o.status, codeOf(o.body), func() string { return sample(o.body) })
	case !o.good || came != asked:
		counts.Failed++
		r.wrong++
		r.failedLocked(o.status, "wrong_answer", func() string {
			return fmt.Sprintf("%d IDs for %d asked: %s", came, asked, sample(o.body))
		})
	default:
		counts.Answered++
		r.answeredLocked(o.turn, o.sent, o.done)
	}
}

// checkGrowingLocked checks that the IDs of an answer grow, and that they follow
// on those before on the connection where that is promised; the recorder is locked.
func (c *client) checkGrowingLocked(place Place, ids []int64) {
	if len(ids) == 0 {
		return
	}
	r, before := c.run.rec, int64(-1)
	if c.run.cfg.Growing && c.run.cfg.Mode == Snowflake {
		before = c.conn.last
	}
	for _, id := range ids {
		if id <= before {
			r.fell++
			if len(r.fellAt) < maxExamples {
				r.fellAt = append(r.fellAt, Fault{Place: place, What: fmt.Sprintf("%d after %d", id, before)})
			}
		}
		before = id
	}
	c.conn.last = before
}
