package zksession

import "time"

const (
	drainWait = 50 * time.Millisecond // for requests of the last connection to learn of its end
	lapWait   = 2 * time.Second       // between two rounds of all servers, that of go-zookeeper's pause among it
)

// hosts, a zk.HostProvider, tells go-zookeeper which server comes next. It keeps names, which are
// resolved for each connection, so that none has to resolve at the start. All of it is for the
// one goroutine in which go-zookeeper connects.
type hosts struct {
	session *Session
	servers []string  // shuffled: not all daemons go to the same one
	next    int       // index of the server to try next
	lap     time.Time // when the first of them was tried last
}

// Init takes the servers as go-zookeeper has shuffled them.
func (h *hosts) Init(servers []string) error {
	h.servers = servers
	return nil
}

// Len returns the number of servers.
func (h *hosts) Len() int { return len(h.servers) }

// Next returns the server to try. With pause, go-zookeeper refuses what waits in
// its queue (zksession.S2), waits for a second, and looks whether it was closed. A pause
// comes before each round of all servers that follows another one at once.
func (h *hosts) Next() (server string, pause bool) {
	pause = !h.session.drained(drainWait) || h.session.ctx.Err() != nil
	if h.next == 0 {
		pause = pause || time.Since(h.lap) < lapWait
		h.lap = time.Now()
	}
	server = h.servers[h.next]
	h.next = (h.next + 1) % len(h.servers)
	return server, pause
}

// Connected has nothing to do.
func (h *hosts) Connected() {}
