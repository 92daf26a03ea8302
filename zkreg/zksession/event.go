package zksession

// EventKind tells what happened to the connection with ZooKeeper, in words.
type EventKind string

// Kinds of events.
const (
	EventConnected    EventKind = "connected"             // requests go through; Session is another one where the last was lost
	EventDisconnected EventKind = "disconnected"          // Err tells why; the session lives on for its timeout
	EventExpired      EventKind = "session expired"       // with its temporary nodes; a new one is opened by itself
	EventAuthFailed   EventKind = "authentication failed" // Err tells how, once; the credentials are offered on, each second
	EventServerFailed EventKind = "server failed"         // Err tells why, once for each reason since the server worked
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
