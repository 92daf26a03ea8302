package zksession

import (
	"context"
	"errors"
	"sync"
	"time"
)

// maxCalls is how many requests may be outstanding. go-zookeeper's queue holds
// 16; with the credentials' and that of Close there is a place for each.
const maxCalls = 14

var (
	errClosed = errors.New("the session was closed")
	errHung   = errors.New("too many requests were left unanswered")

	errOtherConnection = errors.New("the connection was lost meanwhile")
)

// gate lets requests through while there is a connection that may carry them,
// and knows how many are outstanding.
type gate struct {
	mu            sync.Mutex
	changed       chan struct{} // mu protects: closed and replaced whenever something changed
	up            bool          // mu protects: a server has taken us in
	told          bool          // mu protects: requests go through, and the reader of the events knows
	authenticated bool          // mu protects: servers are told our credentials, or need none
	closed        bool          // mu protects
	generation    uint64        // mu protects: number of the connection
	calls         int           // mu protects: requests outstanding
	abandoned     int           // mu protects: those that nobody waits for any more
}

func newGate(authenticated bool) *gate {
	return &gate{changed: make(chan struct{}), authenticated: authenticated}
}

func (g *gate) changedLocked() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// ticket is the right to one request.
type ticket struct {
	generation uint64 // Immutable
	left       bool   // gate.mu protects
	abandoned  bool   // gate.mu protects
}

// await returns once ready, which is called with mu held, says true, or ctx is done.
func (g *gate) await(ctx context.Context, ready func() bool) {
	for {
		over := ctx.Err() != nil // before ready looks at it
		g.mu.Lock()
		done, changed := ready(), g.changed
		g.mu.Unlock()
		if done || over {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// enter waits until a request may be sent.
func (g *gate) enter(ctx context.Context) (t *ticket, err error) {
	g.await(ctx, func() bool {
		switch {
		case g.closed:
			err = errClosed
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case g.abandoned >= maxCalls:
			err = errHung
		case g.up && g.authenticated && g.calls < maxCalls:
			t = g.ticketLocked()
		}
		return t != nil || err != nil
	})
	return t, err
}

// enterUnauthenticated waits until the credentials may be sent; false once the
// gate was closed.
func (g *gate) enterUnauthenticated() (t *ticket, ok bool) {
	g.await(context.Background(), func() bool {
		if g.up && !g.closed {
			t = g.ticketLocked()
		}
		return t != nil || g.closed
	})
	return t, t != nil
}

func (g *gate) ticketLocked() *ticket {
	g.calls++
	return &ticket{generation: g.generation}
}

// leave tells that t's request has ended.
func (g *gate) leave(t *ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t.left = true
	g.calls--
	if t.abandoned {
		g.abandoned--
	}
	g.changedLocked()
}

// abandon tells that nobody waits for t's request any more.
func (g *gate) abandon(t *ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.left {
		return
	}
	t.abandoned = true
	g.abandoned++
	g.changedLocked()
}

// connected tells of a new connection; whether requests go through now.
func (g *gate) connected() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.up = true
	g.told = g.authenticated
	g.generation++
	g.changedLocked()
	return g.authenticated
}

// authenticate tells that the connection of t carries the credentials, and that
// all later ones will. False where there is another connection already: it may
// have been opened before go-zookeeper remembered them.
func (g *gate) authenticate(t *ticket) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.up || g.generation != t.generation {
		return false
	}
	g.authenticated = true
	g.told = true
	g.changedLocked()
	return true
}

// broken tells that the connection can carry no more requests, before
// go-zookeeper knows: what came to its queue now would wait there.
func (g *gate) broken() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.up = false
	g.changedLocked()
}

// disconnected tells that the connection is gone; whether requests went through.
func (g *gate) disconnected() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	told := g.told
	g.up, g.told = false, false
	g.changedLocked()
	return told
}

// is tells whether the connection numbered generation is the one in use.
func (g *gate) is(generation uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.up && g.generation == generation
}

// connection returns the number of the connection that requests go over; 0 for none.
func (g *gate) connection() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.up || !g.authenticated || g.closed {
		return 0
	}
	return g.generation
}

// close ends all waits; whether there was a connection.
func (g *gate) close() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.changedLocked()
	return g.up
}

func (g *gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// drained waits for at most wait until no request is outstanding.
func (g *gate) drained(wait time.Duration) (drained bool) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	g.await(ctx, func() bool {
		drained = g.calls == 0
		return drained || g.closed
	})
	return drained
}

// pause waits; false once the gate was closed.
func (g *gate) pause(d time.Duration) (open bool) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	g.await(ctx, func() bool {
		open = !g.closed
		return !open
	})
	return open
}
