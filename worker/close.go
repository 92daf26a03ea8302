package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/leafd/leafd/clock"
)

// Close records a clean stop: last is the time of the last ID, as Generator.Stop returned it.
// Call it after Run has returned. The next start then waits for nothing, also where the
// registry is out of reach and the local file alone remembers, which is no error. A fenced
// worker records nothing: the record may be another's by now.
func (w *Worker) Close(ctx context.Context, last clock.Millis) (err error) {
	defer func() { err = errors.Join(err, w.cfg.Registry.Close()) }()
	w.endLife() // the last report of Run may be under way still; it must not land later
	if err := errors.Join(w.local.settle(ctx), w.remote.settle(ctx)); err != nil {
		return fmt.Errorf("a clean stop could not be recorded, the next start waits for the ceiling: %w", err)
	}
	now := w.cfg.Clock.Read()
	w.mu.Lock()
	r, anchor, fenced, claimed := w.record, w.anchor, w.fenced, w.claimed
	w.mu.Unlock()
	if fenced != nil {
		return fenced
	}
	if clock.Judge(anchor, now).By <= w.cfg.MaxForwardStep { // worker.C3
		r.Timestamp = max(r.Timestamp, now.Wall())
	}
	r.Ceiling = max(last+1, w.floor)
	if w.cfg.ReleaseOnStop && claimed && r.Cluster != "" {
		r.Released = true // worker.C5: from here on only the registry knows
		r.Limit = min(r.Limit, max(r.Ceiling, r.Floor))
	}
	err = w.lost(w.local.record(ctx, r))
	if err == nil && r.Released { // in both slots: with one of them damaged later the other must not say less
		err = w.lost(w.local.record(ctx, r))
	}
	if err != nil && r.Released { // the file would start it again within the old limit
		r.Released = false
	}
	if claimed {
		bounded, cancel := context.WithTimeout(ctx, lastReport)
		if remote := w.lost(w.remote.record(bounded, r)); err != nil || !errors.Is(remote, ErrUnreachable) {
			err = errors.Join(err, remote)
		}
		cancel()
	}
	w.mu.Lock()
	w.record.Timestamp, w.record.Ceiling = r.Timestamp, r.Ceiling
	w.ceiling.Store(0)
	w.mu.Unlock()
	return err
}
