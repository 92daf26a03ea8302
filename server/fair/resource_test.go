package fair

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// client owns a ticket of a test.
type client struct {
	Ticket
	from   Address
	size   int64
	since  int64 // 0: it is under way
	useful bool
	gone   bool
	told   bool
}

func (c *client) Waits(int64) (since int64, used bool) { return c.since, c.useful }

func (c *client) Yield() bool {
	c.gone = c.since != 0
	return c.gone
}

func (c *client) Yielded() { c.told = true }

func address(i int) (a Address) {
	a[0], a[1], a[2] = byte(i), byte(i>>8), byte(i>>16)
	return a
}

// crowd is what a Resource should hold.
type crowd struct {
	*Resource
	t       *testing.T
	rng     *rand.Rand
	now     int64
	clients []*client
}

func (c *crowd) held(a Address) (n int64) {
	for _, one := range c.clients {
		if one.from == a {
			n += one.size
		}
	}
	return n
}

// mayGive reports whether the rules let v give way to n, whose address holds has.
func (c *crowd) mayGive(v, n *client, has int64) bool {
	if v.since == 0 || v.from == n.from {
		return v.since != 0
	}
	small, its := max(1, c.limit/64), c.held(v.from)
	left := its - v.size
	if left >= max(has+n.size, small) {
		return true
	}
	return c.now-v.since >= int64(grace) &&
		(left >= has+n.size || its <= small && has+n.size <= small || has == 0 && its >= n.size && (left > 0 || its <= small))
}

// enter has a newcomer ask, and checks which gave way, or that none could.
func (c *crowd) enter(n *client) {
	before := append([]*client(nil), c.clients...)
	of, all := make(map[Address]int), c.Held()
	for _, one := range before {
		of[one.from]++
	}
	seen := len(of) <= looks // whether all are looked at
	for _, tickets := range of {
		seen = seen && tickets <= looks
	}
	has := c.held(n.from)
	ok := c.Enter(&n.Ticket, n.from, n.size, n, c.now)
	var gone []*client
	useless := false
	for _, one := range before {
		useless = useless || !one.useful && c.mayGive(one, n, has)
		if one.gone {
			require.True(c.t, one.told)
			gone = append(gone, one)
		}
	}
	require.True(c.t, len(gone) == 0 || all >= c.limit)
	if len(gone) == 1 {
		require.True(c.t, c.mayGive(gone[0], n, has), "%+v gave way to %+v, which holds %d", gone[0], n, has)
		require.False(c.t, seen && gone[0].useful && useless, "of no use first")
	}
	if !ok && seen && len(gone) == 0 {
		for _, one := range before {
			require.False(c.t, c.mayGive(one, n, has), "%+v was refused, and %+v waits", n, one)
		}
	}
	c.clients = c.clients[:0]
	for _, one := range before {
		if !one.gone {
			c.clients = append(c.clients, one)
		}
	}
	if ok {
		c.clients = append(c.clients, n)
	}
}

// check compares the sums and the orders with what there should be.
func (c *crowd) check(largest int64) {
	sums := make(map[Address]int64)
	total := int64(0)
	for _, one := range c.clients {
		sums[one.from] += one.size
		total += one.size
	}
	require.Equal(c.t, total, c.Held())
	require.Less(c.t, total, c.limit+largest)
	require.Len(c.t, c.all, len(sums))
	require.Len(c.t, c.holdings, len(sums))
	most := 0
	for i, h := range c.all {
		require.Equal(c.t, i, h.at)
		require.Equal(c.t, sums[h.address], h.held)
		if h.held > c.small() {
			most++
			require.Same(c.t, h, c.most[h.rank])
		}
	}
	require.Len(c.t, c.most, most)
	for i := 1; i < most; i++ {
		require.GreaterOrEqual(c.t, c.most[i-1].held, c.most[i].held)
	}
}

// Random crowds of addresses, weights, arrivals and times: the rules of Resource hold at each step.
func TestResource(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 39))
		limit, addresses, largest, busy := 1+rng.Int64N(300), 1+rng.IntN(40), int64(1), rng.IntN(100)
		if seed%3 == 0 {
			largest += rng.Int64N(20)
		}
		c := &crowd{Resource: NewResource(limit), t: t, rng: rng, now: 1}
		for range 400 {
			c.now += rng.Int64N(int64(grace) / 4)
			switch pick := rng.IntN(10); {
			case pick < 6:
				a := rng.IntN(addresses)
				if rng.IntN(2) == 0 {
					a = 0 // it asks as often as all others
				}
				c.enter(&client{from: address(a), size: 1 + rng.Int64N(largest), since: c.now})
			case len(c.clients) == 0:
			case pick < 8:
				i := rng.IntN(len(c.clients))
				one := c.clients[i]
				c.clients = append(c.clients[:i], c.clients[i+1:]...)
				c.Leave(&one.Ticket)
				c.Leave(&one.Ticket) // it is gone already
			default:
				one := c.clients[rng.IntN(len(c.clients))]
				if one.since, one.useful = c.now, rng.IntN(2) == 0; rng.IntN(100) < busy {
					one.since = 0
				}
			}
			c.check(largest)
		}
	}
}

// Clients that poll in turn, a tenth more than there is room for, find less than a third of their
// tickets gone: of the longest idle all would be.
func TestPollersKeepTheirs(t *testing.T) {
	for _, addresses := range []int{1, 1100} {
		r, now := NewResource(1000), int64(1)
		clients, gone := make([]*client, 1100), 0
		for i := range 20 * len(clients) {
			now += int64(time.Millisecond)
			c := clients[i%len(clients)]
			if c == nil || c.gone {
				if i >= 2*len(clients) {
					gone++
				}
				c = &client{from: address(i % addresses), size: 1, useful: true}
				clients[i%len(clients)] = c
				require.True(t, r.Enter(&c.Ticket, c.from, 1, c, now))
			}
			c.since = now
		}
		require.Less(t, gone, 18*len(clients)/3, addresses)
	}
}

// What an answer takes may be known late.
func TestGrow(t *testing.T) {
	r := NewResource(100)
	one := &client{from: address(1), since: 1}
	require.True(t, r.Enter(&one.Ticket, one.from, 1, one, 1))
	r.Grow(&one.Ticket, 199)
	require.EqualValues(t, 200, r.Held())
	other := &client{from: address(2), since: 1}
	require.False(t, r.Enter(&other.Ticket, other.from, 50, other, int64(time.Second)), "it would have all, as the other has now")
	r.Leave(&one.Ticket)
	r.Grow(&one.Ticket, 5)
	require.Zero(t, r.Held())
	r.SetLimit(0)
	require.False(t, r.Enter(&other.Ticket, other.from, 1, other, 1))
}
