package zksession

// EventKind tells what happened to the connection with ZooKeeper, in words.
type EventKind string

// Kinds of events.
const (
	EventConnected    EventKind = "connected"       // requests go through; Session is another one where the last was lost
	EventDisconnected EventKind = "disconnected"    // Err tells why; the session lives on for its timeout
	EventExpired      EventKind = "session expired" // with its temporary nodes; a new one is opened by itself
	EventServerFailed EventKind = "server failed"   // Err tells why, once for each reason since the server worked
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

// raise hands e over to Config.Notify, in order, and waits for nothing: where the reader doesn't
// keep up e is dropped.
func (s *Session) raise(e Event) {
	select {
	case s.events <- e:
	default:
	}
}

// tell is the goroutine that calls Config.Notify.
func (s *Session) tell() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case e := <-s.events:
			if s.ctx.Err() == nil && s.cfg.Notify != nil {
				s.cfg.Notify(e)
			}
		}
	}
}
