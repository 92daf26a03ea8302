package zksession

import "sync"

// EventKind tells what happened to the connection with ZooKeeper, in words.
type EventKind string

// Kinds of events.
const (
	// EventConnected: a server took us in, and requests go through. Session is
	// another one than before where the last one was lost.
	EventConnected EventKind = "connected"
	// EventDisconnected: the connection is gone; Err tells why. The session
	// lives on for its timeout, and other servers are tried.
	EventDisconnected EventKind = "disconnected"
	// EventExpired: the session ended, and its temporary nodes with it. A new
	// one is opened by itself, and EventConnected tells of it.
	EventExpired EventKind = "session expired"
	// EventAuthFailed: the servers refuse the credentials; Err tells how. It is
	// told once; they are offered again every second, and requests wait for it.
	EventAuthFailed EventKind = "authentication failed"
	// EventServerFailed: Server can't be used; Err tells why. It is told once,
	// and again when the reason is another one or the server has worked since.
	EventServerFailed EventKind = "server failed"
)

// Event is something that happened to the connection with ZooKeeper.
type Event struct {
	Kind    EventKind
	Server  string // host:port as configured; empty where it is about no single one
	Session int64  // ID of the session; 0 for none
	Err     error  // why; nil where nothing went wrong
}

// maxEvents is how many events may wait for a reader that is slow.
const maxEvents = 64

// notifier hands events over in the order in which they happened, from a
// goroutine of its own: those who raise them must not wait. Where the reader
// doesn't keep up the oldest are dropped.
type notifier struct {
	mu     sync.Mutex
	queue  []Event       // mu protects
	wake   chan struct{} // Immutable: holds one token while there is something to do
	closed chan struct{} // Immutable: closed by close
	once   sync.Once
}

func newNotifier(to func(Event)) *notifier {
	n := &notifier{wake: make(chan struct{}, 1), closed: make(chan struct{})}
	go n.run(to)
	return n
}

func (n *notifier) raise(e Event) {
	n.mu.Lock()
	if len(n.queue) == maxEvents {
		n.queue = n.queue[1:]
	}
	n.queue = append(n.queue, e)
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// close ends the goroutine once the reader has returned, and drops what waits.
// It doesn't wait itself, so that the reader may call it.
func (n *notifier) close() { n.once.Do(func() { close(n.closed) }) }

func (n *notifier) run(to func(Event)) {
	for {
		select {
		case <-n.closed:
			return
		case <-n.wake:
		}
		for {
			e, ok := n.take()
			if !ok {
				break
			}
			to(e)
		}
	}
}

func (n *notifier) take() (Event, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.closed:
		return Event{}, false
	default:
	}
	if len(n.queue) == 0 {
		return Event{}, false
	}
	e := n.queue[0]
	n.queue = n.queue[1:]
	return e, true
}
