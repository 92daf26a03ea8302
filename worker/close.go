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
	defer func() { err = errors.Join(err, w.closeRegistry()) }()
	w.endLife() // the last report of Run may be under way still; it must not land later
	if err := errors.Join(w.local.settle(ctx), w.remote.settle(ctx)); err != nil {
		return fmt.Errorf("a clean stop could not be recorded, the next start waits for the ceiling: %w", err)
	}
	now := w.cfg.Clock.Read()
	w.mu.Lock()
	r, anchor, fenced, confirmed := w.record, w.anchor, w.fenced, w.confirmed
	w.mu.Unlock()
	if fenced != nil {
		return fenced
	}
	if clock.Judge(anchor, now).By <= w.cfg.MaxForwardStep { // worker.C3
		r.Timestamp = max(r.Timestamp, now.Wall())
	}
	r.Ceiling = max(last+1, w.floor)
	releases := w.cfg.ReleaseOnStop && confirmed && r.State == RecordActive
	if releases { // worker.C5: from here on the record alone gives no worker ID
		r.releasing()
	}
	err = w.saveTwice(ctx, r, releases)
	if err != nil && releases { // the file would start it again within the old limit
		r.State, r.Limit, releases = RecordActive, r.AckedLimit, false
	}
	if confirmed {
		bounded, cancel := context.WithTimeout(ctx, lastReport)
		remote := w.lost(w.remote.record(bounded, r))
		cancel()
		if remote == nil { // the next start judges by it whether the registry lost it (worker.R0)
			r.adopt(w.Record())
			remote = w.saveTwice(ctx, r, releases)
		}
		if err != nil || !errors.Is(remote, ErrUnreachable) {
			err = errors.Join(err, remote)
		}
	}
	w.mu.Lock()
	w.record.Timestamp, w.record.Ceiling = r.Timestamp, r.Ceiling
	w.ceiling.Store(0)
	w.mu.Unlock()
	return err
}

// saveTwice saves r, and where both is set in both slots of the file: with one of them damaged
// later the other must not say that the worker ID is ours still.
func (w *Worker) saveTwice(ctx context.Context, r Record, both bool) error {
	err := w.lost(w.local.record(ctx, r))
	if err == nil && both {
		err = w.lost(w.local.record(ctx, r))
	}
	return err
}

// closeRegistry takes this life out of the live set.
func (w *Worker) closeRegistry() error {
	if w.alone {
		return nil
	}
	return w.cfg.Registry.Close()
}
