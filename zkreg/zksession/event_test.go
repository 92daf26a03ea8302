package zksession

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEventsKeepOrder, and drops the oldest where nobody reads.
func TestEventsKeepOrder(t *testing.T) {
	read, first, release := make(chan Event, 3*maxEvents), make(chan struct{}), make(chan struct{})
	cfg := to("127.0.0.1:1")
	cfg.Notify = func(e Event) {
		if e.Session == 0 {
			close(first)
			<-release
		}
		read <- e
	}
	s := unopened(t, cfg)
	s.Raise(Event{Session: 0})
	<-first
	for i := range int64(2 * maxEvents) { // none of these waits
		s.Raise(Event{Session: 1 + i})
	}
	close(release)
	require.Zero(t, (<-read).Session)
	for i := range int64(maxEvents) {
		require.Equal(t, 1+maxEvents+i, (<-read).Session)
	}
	s.mute()
	s.Raise(Event{Session: 1})
	require.Never(t, func() bool { return len(read) > 0 }, 50*time.Millisecond, 10*time.Millisecond)
}

// TestReaderMayClose the session that told it.
func TestReaderMayClose(t *testing.T) {
	opened, done := make(chan *Session, 1), make(chan struct{})
	cfg := to("127.0.0.1:1")
	cfg.Notify = func(Event) {
		select {
		case s := <-opened:
			s.Close()
			close(done)
		case <-done:
		}
	}
	s, err := Open(cfg)
	require.NoError(t, err)
	opened <- s
	<-done
}
