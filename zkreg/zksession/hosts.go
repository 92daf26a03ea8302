package zksession

import (
	"math/rand/v2"
	"slices"
	"time"
)

const (
	drainWait = 50 * time.Millisecond // for requests of the last connection to learn of its end
	freshWait = time.Second           // at least between two connections that are tried without a pause
)

// hosts, a zk.HostProvider, tells go-zookeeper which server comes next. It keeps names, which are
// resolved for each connection, so that none has to resolve at the start. All of it is for the
// one goroutine in which go-zookeeper connects.
type hosts struct {
	session *Session
	servers []string  // in the order in which we try them
	at      int       // index of the server to try next
	tried   int       // since the last one that took us in
	laps    int       // how often all of them were tried in vain
	fresh   time.Time // when a first one was last tried without a pause
}

// newHosts shuffles the servers, so that not all daemons go to the same one.
func newHosts(s *Session) *hosts {
	servers := slices.Clone(s.cfg.Servers)
	//nolint:gosec // the order is no secret
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	return &hosts{session: s, servers: servers}
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
	server = h.servers[h.at]
	h.at = (h.at + 1) % len(h.servers)
	if h.tried++; h.tried > len(h.servers) {
		h.tried = 1
		h.laps++
		pause = true
	} else if h.tried == 1 {
		pause = pause || time.Since(h.fresh) < freshWait
		h.fresh = time.Now()
	}
	return server, pause
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
