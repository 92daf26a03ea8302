package segment

import (
	"fmt"
	"time"

	"github.com/leafd/leafd/clock"
)

// turnGrace is what a loop gets above the time that its turn may take, for a
// machine under load.
const turnGrace = 5 * time.Second

// Stuck returns an error, which names the part, when a goroutine of Run no longer
// makes progress. It takes the locks that a change of the tags needs, and doesn't return
// where one is stuck. A Store or HighWater that fails or hangs is no error here. It
// returns nil where Run doesn't run.
func (s *Service) Stuck() error {
	if !s.queue.isOpen() {
		return nil
	}
	for _, loop := range []struct {
		name string
		*clock.Heartbeat
	}{
		{"the loop that reads the tags", &s.reading},
		{"the call of Notify", &s.events.told},
	} {
		if late := loop.Overdue(s.clock); late > 0 {
			return fmt.Errorf("%s is %s late", loop.name, late.Round(time.Millisecond))
		}
	}
	s.tagsMu.Lock()
	s.tagsMu.Unlock() //nolint:staticcheck // that it can be had is the point
	return nil
}
