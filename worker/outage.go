package worker

import (
	"context"
	"errors"
	"time"

	"github.com/leafd/leafd/clock"
)

// errPending is why a ceiling that only the local file has doesn't count yet (worker.C6).
var errPending = errors.New("worker: the registry does not take our reports, and has to be asked for a moment longer before the local file alone will do: " +
	"another process could have taken our place while this one was suspended")

// suspendGap is how much later than its interval a report may come before this
// process counts as suspended. No session of the registry ends sooner.
const suspendGap = time.Second

// pending tells whether the outage of the registry, which is asked at now, is still too
// short for the local file alone to count (worker.C6). Where reports fail while this
// process runs it is long enough before the ceiling is reached: an outage refuses nobody.
func (w *Worker) pending(now clock.Reading) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.record.Cluster == "" {
		return false // nobody to ask
	}
	suspended := now.Boot-w.ran > w.cfg.ReportInterval+suspendGap
	w.ran = now.Boot
	if w.pendingUntil == 0 || suspended {
		w.pendingUntil = now.Boot + w.pendingFor(now)
	}
	return now.Boot < w.pendingUntil
}

// pendingFor returns how long the registry has to be asked in vain from now on: half of
// what the last ceiling reaches beyond the report that follows it, or, where the clock
// has reached the ceiling anyway, as long as a new session may need.
func (w *Worker) pendingFor(now clock.Reading) time.Duration {
	if now.Wall() >= w.Ceiling() {
		return min(leastReport, w.cfg.CeilingLead)
	}
	return min(leastReport, (w.cfg.CeilingLead-w.cfg.ReportInterval)/2)
}

// blocksIssuing tells whether err keeps us from issuing, now or soon: errPending
// doesn't before the ceiling is reached.
func (w *Worker) blocksIssuing(err error) bool {
	return err != nil && (!errors.Is(err, errPending) || w.cfg.Clock.Read().Wall() >= w.Ceiling())
}

// askAgain tells whether the last report ended with the outage pending: the next one
// is soon, whoever asks for it.
func (w *Worker) askAgain() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fenced == nil && errors.Is(w.lastErr, errPending)
}

// pauseAsking waits until the registry may be asked again: soon enough to have asked it
// in vain before the ceiling is reached.
func (w *Worker) pauseAsking(ctx context.Context) error {
	return w.cfg.Clock.Sleep(ctx, min(failedInterval, w.cfg.ReportInterval, w.pendingFor(w.cfg.Clock.Read())/2))
}
