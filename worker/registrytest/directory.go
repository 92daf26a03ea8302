package registrytest

import (
	"context"
	"fmt"

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
	return d.m.listedLocked(), nil
}

func (m *Model) listedLocked() []worker.Entry {
	entries := []worker.Entry{}
	for _, e := range m.orderedLocked() {
		entries = append(entries, e.asSeenLocked(m))
	}
	return entries
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
		if e.State != worker.StateReleased {
			limit, err := e.asSeenLocked(d.m).Release(now, e.written, worker.DefaultCeilingLead+2*worker.DefaultClockThreshold, force)
			if err != nil {
				return e.Entry, err
			}
			e.State, e.Limit = worker.StateReleased, limit
			d.m.touchLocked(e)
		}
		return e.asSeenLocked(d.m), nil
	}
	return worker.Entry{}, fmt.Errorf("%w: worker %d", worker.ErrNoEntry, workerID)
}
