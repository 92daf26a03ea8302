package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leafd/leafd/clock"
)

// Close records a clean stop: last is the time of the last ID, as
// Generator.Stop returned it. Call it after Run has returned. The next start
// then waits for nothing. A fenced worker records nothing: the record may be
// another's by now.
//
// With the registry out of reach the local file alone remembers, which is no error.
func (w *Worker) Close(ctx context.Context, last clock.Millis) error {
	// The last report of Run may be under way still; it must not land later.
	w.mu.Lock()
	w.leaving = true
	w.mu.Unlock()
	w.endLife()
	settled := errors.Join(w.local.settle(ctx), w.remote.settle(ctx))
	now := w.cfg.Clock.Read()
	w.mu.Lock()
	r, anchor, fenced, claimed := w.record, w.anchor, w.fenced, w.claimed
	w.mu.Unlock()
	if settled != nil {
		return errors.Join(fmt.Errorf("a clean stop could not be recorded, the next start waits for the ceiling: %w", settled), w.cfg.Registry.Close())
	}
	if fenced != nil {
		return errors.Join(fenced, w.cfg.Registry.Close())
	}
	if clock.Judge(anchor, now).By <= w.cfg.MaxForwardStep { // worker.C3
		r.Timestamp = max(r.Timestamp, now.Wall())
	}
	r.Ceiling = max(last+1, w.floor)
	if w.cfg.ReleaseOnStop && claimed && r.Cluster != "" {
		r.Released = true // worker.U2: from here on only the registry knows
		r.Limit = min(r.Limit, max(r.Ceiling, r.Floor))
	}
	err := w.lost(w.local.record(ctx, r))
	if err == nil && r.Released { // in both slots: with one of them damaged later the other must not say less
		err = w.lost(w.local.record(ctx, r))
	}
	if err != nil && r.Released { // the file would start it again within the old limit
		r.Released = false
	}
	if claimed {
		// The local file knows; without the registry the next start waits for
		// nothing either.
		bounded, cancel := context.WithTimeout(ctx, lastReport)
		if remote := w.lost(w.remote.record(bounded, r)); !errors.Is(remote, ErrNoRegistry) && (err != nil || !errors.Is(remote, ErrUnreachable)) {
			err = errors.Join(err, remote)
		}
		cancel()
	}
	w.mu.Lock()
	w.record.Timestamp, w.record.Ceiling = r.Timestamp, r.Ceiling
	w.ceiling.Store(0)
	w.mu.Unlock()
	return errors.Join(err, w.cfg.Registry.Close())
}

// lastReport bounds the last report to the registry.
const lastReport = 2 * time.Second
