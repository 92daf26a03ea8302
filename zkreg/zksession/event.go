package zksession

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

// Raise hands e over to Config.Notify, in order with the session's own events, and waits for
// nobody. Where the reader doesn't keep up the oldest are dropped.
func (s *Session) Raise(e Event) {
	for {
		select {
		case s.events <- e:
			return
		default:
		}
		select {
		case <-s.events:
		default: // somebody has taken it
		}
	}
}

// tell is the goroutine that calls Config.Notify.
func (s *Session) tell() {
	for {
		select {
		case <-s.telling.Done():
			return
		case e := <-s.events:
			if s.telling.Err() == nil {
				s.cfg.Notify(e)
			}
		}
	}
}
