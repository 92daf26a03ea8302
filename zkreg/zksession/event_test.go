package zksession

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEventsKeepOrder, and what comes while too many wait is dropped.
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
	s.raise(Event{Session: 0})
	<-first
	for i := range int64(2 * maxEvents) { // none of these waits
		s.raise(Event{Session: 1 + i})
	}
	close(release)
	for i := range int64(maxEvents + 1) {
		require.Equal(t, i, (<-read).Session)
	}
	s.cancel()
	s.raise(Event{Session: 1})
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
