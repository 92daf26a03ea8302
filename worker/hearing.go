package worker

import (
	"context"
	"errors"
	"time"

	"github.com/leafd/leafd/clock"
)

// errUnheard is why a ceiling that only the local file has doesn't count yet (C6).
var errUnheard = errors.New("worker: the registry does not take our reports, and has to be asked for a moment longer before the local file alone will do: " +
	"another process could have taken our place while this one stood still")

// standstill is how much later than its interval a report may come before this
// process counts as one that stood still. No session of the registry ends sooner.
const standstill = time.Second

// unheard tells whether the registry, when it was asked at now, had not been asked in
// vain for long enough (C6). It is long enough before the ceiling is reached where
// reports fail while this process runs: an outage of the registry refuses nobody.
func (w *Worker) unheard(now clock.Reading) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.record.Cluster == "" {
		return false // nobody to ask
	}
	stood := now.Boot-w.ran > w.cfg.ReportInterval+standstill
	w.ran = now.Boot
	if w.heardOut == 0 || stood {
		w.heardOut = now.Boot + w.hearing(now)
	}
	return now.Boot < w.heardOut
}

// hearing returns how long the registry has to be asked in vain from now on: half of
// what the last ceiling reaches beyond the report that follows it, or, where the clock
// has reached the ceiling anyway, as long as a new session may need.
func (w *Worker) hearing(now clock.Reading) time.Duration {
	if now.Wall() >= w.Ceiling() {
		return min(leastReport, w.cfg.CeilingLead)
	}
	return min(leastReport, (w.cfg.CeilingLead-w.cfg.ReportInterval)/2)
}

// hindered tells whether err keeps us from issuing, now or soon: errUnheard doesn't
// before the ceiling is reached.
func (w *Worker) hindered(err error) bool {
	return err != nil && (!errors.Is(err, errUnheard) || w.cfg.Clock.Read().Wall() >= w.Ceiling())
}

// askAgain tells whether the last report ended with the registry unheard: the next one
// is soon, whoever asks for it.
func (w *Worker) askAgain() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fenced == nil && errors.Is(w.lastErr, errUnheard)
}

// pauseAsking waits until the registry may be asked again: soon enough to have asked it
// in vain before the ceiling is reached.
func (w *Worker) pauseAsking(ctx context.Context) error {
	return w.cfg.Clock.Sleep(ctx, min(failedInterval, w.cfg.ReportInterval, w.hearing(w.cfg.Clock.Read())/2))
}
