package segment

import (
	"context"
	"fmt"
	"time"

	"github.com/leafd/leafd/clock"
)

// turnGrace is what a loop gets above the time that its turn may take, for a
// machine under load.
const turnGrace = 5 * time.Second

// Turning returns nil once it has seen that the goroutines of Run come round: it
// has the one that keeps all deadlines and retries meet a deadline, and takes the
// locks that a change of the tags needs. A store or marks that fail, or hang, keep
// none of them from it: an error, which names the part, means that this process is
// stuck. It returns within ctx but where a lock is stuck; nil where Run doesn't run.
func (s *Service) Turning(ctx context.Context) error {
	if !s.queue.isOpen() {
		return nil
	}
	for _, loop := range []struct {
		name string
		*clock.Loop
	}{
		{"the loop that reads the tags", &s.reading},
		{"the call of Notify", &s.events.told},
	} {
		if late := loop.Late(s.clock); late > 0 {
			return fmt.Errorf("segment: %s is %s late", loop.name, late.Round(time.Millisecond))
		}
	}
	s.tagsMu.Lock()
	s.tagsMu.Unlock() //nolint:staticcheck // that it can be had is the point
	fired := make(chan struct{})
	al := s.alarms.add(s.clock.Mono(), func() { close(fired) })
	if al == nil {
		return nil // Run has ended since
	}
	defer s.alarms.remove(al)
	select {
	case <-fired:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("segment: a deadline that is over was not met: %w", ctx.Err())
	}
}
