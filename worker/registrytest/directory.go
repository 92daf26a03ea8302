package registrytest

import (
	"context"
	"fmt"
	"time"

	"github.com/leafd/leafd/worker"
)

// Directory is the worker.Directory of a Model.
type Directory struct{ m *Model }

var _ worker.Directory = Directory{}

// Directory returns the directory of m.
func (m *Model) Directory() Directory { return Directory{m} }

// Close implements worker.Directory.
func (Directory) Close() error { return nil }

// Entries implements worker.Directory.
func (d Directory) Entries(context.Context) ([]worker.Entry, error) {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	if d.m.down {
		return nil, fmt.Errorf("%w: model", worker.ErrUnreachable)
	}
	d.m.expireLocked()
	entries := []worker.Entry{}
	for _, e := range d.m.orderedLocked() {
		listed := e.Entry
		listed.Live = d.m.live[e.Node] != nil
		entries = append(entries, listed)
	}
	return entries, nil
}

// Release implements worker.Directory.
func (d Directory) Release(_ context.Context, workerID int64, force bool) (worker.Entry, error) {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	if d.m.down {
		return worker.Entry{}, fmt.Errorf("%w: model", worker.ErrUnreachable)
	}
	d.m.expireLocked()
	now := d.m.clk.Read().Wall()
	for _, e := range d.m.orderedLocked() {
		if e.WorkerID != workerID {
			continue
		}
		live := d.m.live[e.Node] != nil
		if e.State != worker.StateReleased {
			if !force && (live || now.Sub(max(e.Timestamp, e.written)) < worker.ReleaseAge) {
				return e.Entry, fmt.Errorf("%w: worker %d", worker.ErrInUse, workerID)
			}
			e.State = worker.StateReleased
			e.Ceiling = max(e.Ceiling, now.Add(releaseLead))
			d.m.touchLocked(e)
		}
		released := e.Entry
		released.Live = live
		return released, nil
	}
	return worker.Entry{}, fmt.Errorf("%w: worker %d", worker.ErrNoEntry, workerID)
}

// releaseLead is zkreg's.
const releaseLead = 6 * time.Second
