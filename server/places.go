package server

import (
	"cmp"
	"container/heap"
	"container/list"
	"time"
)

const (
	// silentGrace is how long a client has for its first bytes before it has to make room for
	// another address's.
	silentGrace = time.Second
	// looks bounds how many connections are looked at for one newcomer.
	looks = 128
	// localShare is the part of the places of --listen and --listen-redis that only unix
	// sockets take, where they are listened on.
	localShare = 8
)

// pool is the places that share one limit; admission.mu protects it.
type pool struct {
	limit   int
	taken   int
	silent  list.List          // *conn, in the order of accepting; those that have sent something are taken out late
	holders map[origin]*holder // those with a place
	most    queue[*holder]     // the one with most places first
}

// holder is an address, as networkOf has it, with its connections.
type holder struct {
	from  origin
	conns queue[*conn] // silent ones first, then by when they became idle, as far as is known
	at    int          // in pool.most
}

// place is a conn's; admission.mu protects it, but idle.
type place struct {
	in     *pool // nil: it has none
	holder *holder
	at     int           // in holder.conns
	key    int64         // what holder.conns is ordered by: no later than what rank returns
	silent *list.Element // nil: it is not in pool.silent
}

// rank orders the connections of an address: what has sent nothing, what is idle, what is busy.
func (c *conn) rank(now int64) int64 {
	since := c.idle.Load()
	switch {
	case since <= 0:
		return now
	case c.fresh.Load():
		return since - 1<<62
	}
	return since
}

// displace ends an idle connection: what it sends from now on is not read. False where it is
// busy by now.
func (c *conn) displace() bool {
	since := c.idle.Load()
	return since > 0 && c.idle.CompareAndSwap(since, -1)
}

func (p *pool) add(c *conn, from origin, now int64) {
	if p.holders == nil {
		p.holders = make(map[origin]*holder)
		p.most = queue[*holder]{
			less: func(a, b *holder) bool { return len(a.conns.all) > len(b.conns.all) },
			at:   func(h *holder) *int { return &h.at },
		}
	}
	h := p.holders[from]
	if h == nil {
		h = &holder{from: from, conns: queue[*conn]{
			less: func(a, b *conn) bool { return cmp.Less(a.place.key, b.place.key) },
			at:   func(c *conn) *int { return &c.place.at },
		}}
		p.holders[from] = h
		heap.Push(&p.most, h)
	}
	c.place = place{in: p, holder: h, key: c.rank(now), silent: p.silent.PushBack(c)}
	heap.Push(&h.conns, c)
	heap.Fix(&p.most, h.at)
	p.taken++
}

func (p *pool) remove(c *conn) {
	h := c.place.holder
	heap.Remove(&h.conns, c.place.at)
	if len(h.conns.all) > 0 {
		heap.Fix(&p.most, h.at)
	} else {
		heap.Remove(&p.most, h.at)
		delete(p.holders, h.from)
	}
	if c.place.silent != nil {
		p.silent.Remove(c.place.silent)
	}
	c.place = place{}
	p.taken--
}

// victim returns the connection that makes room for one from there, and ends it; nil: there is none.
func (p *pool) victim(from origin, now int64) *conn {
	for range looks {
		e := p.silent.Front()
		if e == nil {
			break
		}
		c := e.Value.(*conn) //nolint:forcetypeassert // the list has no other
		if c.fresh.Load() {
			if now-c.idle.Load() < int64(silentGrace) {
				break
			}
			if c.displace() {
				return c
			}
		}
		p.silent.Remove(e)
		c.place.silent = nil
	}
	left := looks
	own, mine := p.holders[from], 0
	if own != nil {
		mine = len(own.conns.all)
	}
	var passed []*holder // with busy connections only
	defer func() {
		for _, h := range passed {
			heap.Push(&p.most, h)
		}
	}()
	for left > 0 && len(p.most.all) > 0 && len(p.most.all[0].conns.all) > mine {
		h := p.most.all[0]
		if c := h.idlest(now, &left); c != nil {
			return c
		}
		heap.Pop(&p.most)
		passed = append(passed, h)
	}
	if own == nil {
		return nil
	}
	return own.idlest(now, &left)
}

// idlest ends the connection that is silent or idle for longest, and returns it; nil: all are
// busy, as far as left looks tell. A key may be of before the connection's last request:
// it is put right when it comes first.
func (h *holder) idlest(now int64, left *int) *conn {
	for *left > 0 {
		*left--
		c := h.conns.all[0]
		key := c.rank(now)
		switch {
		case key > c.place.key:
			c.place.key = key
			heap.Fix(&h.conns, 0)
		case key == now && c.idle.Load() <= 0:
			return nil // and so are those behind it
		case c.displace():
			return c
		}
	}
	return nil
}

// queue is a heap, for package heap.
type queue[T any] struct {
	all  []T
	less func(a, b T) bool
	at   func(T) *int // where it notes its index
}

func (q *queue[T]) Len() int           { return len(q.all) }
func (q *queue[T]) Less(i, j int) bool { return q.less(q.all[i], q.all[j]) }
func (q *queue[T]) Swap(i, j int) {
	q.all[i], q.all[j] = q.all[j], q.all[i]
	*q.at(q.all[i]), *q.at(q.all[j]) = i, j
}

// Push implements heap.Interface.
func (q *queue[T]) Push(x any) {
	t := x.(T) //nolint:forcetypeassert // package heap hands on what it was given
	*q.at(t) = len(q.all)
	q.all = append(q.all, t)
}

// Pop implements heap.Interface.
func (q *queue[T]) Pop() any {
	last := len(q.all) - 1
	t := q.all[last]
	clear(q.all[last:])
	q.all = q.all[:last]
	return t
}
