package zksession

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"
)

const (
	drainWait = 50 * time.Millisecond // for requests of the last connection to learn of its end
	freshWait = time.Second           // at least between two connections that are tried without a pause
)

// hosts, a zk.HostProvider, tells go-zookeeper which server comes next, and dial which of its addresses. It
// keeps names, which are resolved for each connection, so that none has to resolve at the
// start. All of it is for the one goroutine in which go-zookeeper connects.
type hosts struct {
	session *Session
	servers []string       // in the order in which we try them
	at      int            // index of the server tried last; -1 at first
	tried   int            // since the last one that took us in
	laps    int            // how often all of them were tried in vain
	fresh   time.Time      // when a first one was last tried without a pause
	turn    map[string]int // which address of a server's name comes next
}

// newHosts shuffles the servers, so that not all daemons go to the same one.
func newHosts(s *Session) *hosts {
	servers := slices.Clone(s.cfg.Servers)
	//nolint:gosec // the order is no secret
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	return &hosts{session: s, servers: servers, at: -1, turn: map[string]int{}}
}

// Init has nothing to do.
func (h *hosts) Init([]string) error { return nil }

// Len returns the number of servers.
func (h *hosts) Len() int { return len(h.servers) }

// Next returns the server to try. With pause, go-zookeeper refuses what waits in
// its queue (zksession.S2), waits for a second, and looks whether it was closed. A pause
// comes after each round in vain, and where a connection was lost right after it
// was made.
func (h *hosts) Next() (server string, pause bool) {
	pause = !h.session.drained(drainWait) || h.session.ctx.Err() != nil
	h.at = (h.at + 1) % len(h.servers)
	h.tried++
	switch now := time.Now(); {
	case h.tried > len(h.servers):
		h.tried = 1
		h.laps++
		pause = true
	case h.tried == 1 && now.Sub(h.fresh) < freshWait:
		pause = true
	case h.tried == 1:
		h.fresh = now
	}
	return h.servers[h.at], pause
}

// Connected tells that a server took us in.
func (h *hosts) Connected() { h.tried, h.laps = 0, 0 }

// patience returns how long a server may take to take us in, so that all the others
// can be tried in the third of the session that is left once a silent server was
// left. Each round in vain doubles it, for servers that are slow, not gone.
func (h *hosts) patience(session time.Duration) time.Duration {
	most := session * 2 / 3
	if len(h.servers) == 1 {
		return most
	}
	wait := max(session/3/time.Duration(len(h.servers)-1), time.Second)
	return min(wait<<min(h.laps, 16), most) // from a second to the longest session's most
}

// resolve returns the addresses of server's host, another one first each time: a name
// may stand for several servers, of which one hangs.
func (h *hosts) resolve(ctx context.Context, server, host string) ([]string, error) {
	if _, err := netip.ParseAddr(host); err == nil {
		return []string{host}, nil
	}
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	slices.Sort(addresses)
	turn, ok := h.turn[server]
	if !ok {
		turn = rand.IntN(len(addresses)) //nolint:gosec // where to start is no secret
	}
	h.turn[server] = turn + 1
	turn %= len(addresses)
	return slices.Concat(addresses[turn:], addresses[:turn]), nil
}
