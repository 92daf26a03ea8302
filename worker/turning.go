package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/leafd/leafd/clock"
)

// turnGrace is what a loop gets above the time that its turn may take: for a machine
// under load, not for the registry, the file or the peers, whose calls are bounded.
const turnGrace = 5 * time.Second

// turns sleeps until the next turn of a loop; false when ctx is done.
func (w *Worker) turns(ctx context.Context, loop *clock.Loop, interval time.Duration) bool {
	loop.Within(w.cfg.Clock, interval+turnGrace)
	return w.cfg.Clock.Sleep(ctx, interval) == nil
}

// Turning returns nil while the loops of Run and Watch come round. A registry, a
// file, a clock or peers that fail keep none of them from it: an error, which names
// the loop, means that this process is stuck. It takes no lock.
func (w *Worker) Turning() error {
	for _, loop := range []struct {
		name string
		*clock.Loop
	}{
		{"reports", &w.reporting},
		{"looks at the generator", &w.watching},
		{"looks at the peers", &w.looking},
	} {
		if late := loop.Late(w.cfg.Clock); late > 0 {
			return fmt.Errorf("worker: the loop that %s is %s late", loop.name, late.Round(time.Millisecond))
		}
	}
	return nil
}
