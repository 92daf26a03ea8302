package zksession

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	// drainWait is for requests of the last connection to learn of its end.
	drainWait = 50 * time.Millisecond
	// freshWait is the least time between two connections that are tried without
	// a pause.
	freshWait = time.Second
)

// hosts tells go-zookeeper which server comes next. It keeps names, which the
// dialer resolves for each connection, so that none has to resolve at the start.
type hosts struct {
	gate    *gate    // Immutable
	servers []string // Immutable: in the order in which we try them

	mu    sync.Mutex
	at    int       // mu protects: index of the server tried last; -1 at first
	tried int       // mu protects: since the last one that took us in
	laps  int       // mu protects: how often all of them were tried in vain
	fresh time.Time // mu protects: when a first one was last tried without a pause
}

var _ zk.HostProvider = (*hosts)(nil)

// newHosts shuffles servers, so that not all daemons go to the same one.
func newHosts(servers []string, g *gate) *hosts {
	servers = slices.Clone(servers)
	//nolint:gosec // the order is no secret
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	return &hosts{gate: g, servers: servers, at: -1}
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
	drained := h.gate.drained(drainWait)
	h.mu.Lock()
	defer h.mu.Unlock()
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
	return h.servers[h.at], pause || !drained || h.gate.isClosed()
}

// Connected tells that a server took us in.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried, h.laps = 0, 0
}

// patience returns how long a server may take to take us in, so that all the others
// can be tried in the third of the session that is left once a silent server was
// left. Each round in vain doubles it, for servers that are slow, not gone.
func (h *hosts) patience(session time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	most := session * 2 / 3
	if len(h.servers) == 1 {
		return most
	}
	wait := max(session/3/time.Duration(len(h.servers)-1), time.Second)
	return min(wait<<min(h.laps, 16), most) // from a second to the longest session's most
}
