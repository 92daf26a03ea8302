package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/leafd/leafd/clock"
)

// stuckGrace is what a loop gets above the time that its round may take: for a machine
// under load, not for the registry, the file or the peers, whose calls are bounded.
const stuckGrace = 5 * time.Second

// beat sleeps until the next round of a loop; false when ctx is done.
func (w *Worker) beat(ctx context.Context, loop *clock.Heartbeat, interval time.Duration) bool {
	loop.Expect(w.cfg.Clock, interval+stuckGrace)
	return w.cfg.Clock.Sleep(ctx, interval) == nil
}

// Stuck returns nil while the loops of Run and Watch come round. A registry, a
// file, a clock or peers that fail keep none of them from it: an error, which names
// the loop, means that this process is stuck. It takes no lock.
func (w *Worker) Stuck() error {
	for _, loop := range []struct {
		name string
		*clock.Heartbeat
	}{
		{"reports", &w.reporting},
		{"looks at the generator", &w.watching},
		{"looks at the peers", &w.looking},
	} {
		if late := loop.Overdue(w.cfg.Clock); late > 0 {
			return fmt.Errorf("the loop that %s is %s late", loop.name, late.Round(time.Millisecond))
		}
	}
	return nil
}
