package server

import (
	"math"
	"math/rand/v2"
	"time"
)

const (
	// silentGrace is how long a client has for its first bytes before it has to make room for
	// another address's.
	silentGrace = time.Second
	// looks bounds how many connections are looked at for one newcomer. Of more, as many are
	// drawn at random: an address that holds a tenth of them is then always among those.
	looks = 256
	// localShare is the part of the places of --listen and --listen-redis that only unix
	// sockets take, where they are listened on.
	localShare = 8
)

// pool is the places that share one limit; admission.mu protects it.
type pool struct {
	limit   int
	conns   []*conn            // those with a place
	holders map[origin]*holder // of these
}

// holder is an address, as networkOf has it.
type holder struct {
	from   origin
	places int
}

// place is a conn's; admission.mu protects it.
type place struct {
	in     *pool // nil: it has none
	holder *holder
	at     int // in pool.conns
}

// displace ends an idle connection: what it sends from now on is not read. False where it is
// busy by now.
func (c *conn) displace() bool {
	since := c.idle.Load()
	return since > 0 && c.idle.CompareAndSwap(since, -1)
}

func (p *pool) add(c *conn, from origin) {
	h := p.holders[from]
	if h == nil {
		h = &holder{from: from}
		if p.holders == nil {
			p.holders = make(map[origin]*holder)
		}
		p.holders[from] = h
	}
	h.places++
	c.place = place{in: p, holder: h, at: len(p.conns)}
	p.conns = append(p.conns, c)
}

func (p *pool) remove(c *conn) {
	last := len(p.conns) - 1
	moved := p.conns[last]
	p.conns[c.place.at], moved.place.at = moved, c.place.at
	p.conns[last] = nil
	p.conns = p.conns[:last]
	h := c.place.holder
	if h.places--; h.places == 0 {
		delete(p.holders, h.from)
	}
	c.place = place{}
}

// victim returns the connection that makes room for one from there, and ends it; nil: there is none.
func (p *pool) victim(from origin, now int64) *conn {
	for range 3 { // it may have become busy meanwhile
		c := p.choose(p.holders[from], now)
		if c == nil || c.displace() {
			return c
		}
	}
	return nil
}

// choose returns the connection that makes room for one of own, which has none yet where it is
// nil: what has sent nothing for long, else one of the address that holds most, if that
// is more than own does, else of own; there, what has sent nothing, else what is idle. Of
// several it is the one that has waited longest.
func (p *pool) choose(own *holder, now int64) (chosen *conn) {
	mine := 0
	if own != nil {
		mine = own.places
	}
	rank, first := 0, int64(math.MaxInt64)
	for i := range min(looks, len(p.conns)) {
		if len(p.conns) > looks {
			i = rand.IntN(len(p.conns)) //nolint:gosec // nothing is secret about it
		}
		c := p.conns[i]
		h, since, silent := c.place.holder, c.idle.Load(), c.fresh.Load()
		its := 2 * h.places
		if silent {
			its++
		}
		switch {
		case since <= 0:
			continue
		case silent && now-since >= int64(silentGrace):
			its = math.MaxInt
		case h.places <= mine && h != own:
			continue
		}
		if its > rank || its == rank && since < first {
			chosen, rank, first = c, its, since
		}
	}
	return chosen
}
