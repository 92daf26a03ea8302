package walktest

import (
	"context"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// plainCache is a cache that remembers the time reported and no ceiling: what the
// Leaf article describes.
type plainCache struct{ worker.Cache }

// Load implements worker.Cache.
func (c plainCache) Load() (worker.Record, error) {
	r, err := c.Cache.Load()
	r.Ceiling = min(r.Ceiling, r.Timestamp)
	return r, err
}

// plainRegistry is the same of a registry.
type plainRegistry struct{ worker.Registry }

// Look implements worker.Registry.
func (r plainRegistry) Look(ctx context.Context, me worker.Record) (worker.Snapshot, error) {
	s, err := r.Registry.Look(ctx, me)
	return plain(s), err
}

// Claim implements worker.Registry.
func (r plainRegistry) Claim(ctx context.Context, s worker.Snapshot, me worker.Record, now clock.Millis) (worker.Snapshot, error) {
	claimed, err := r.Registry.Claim(ctx, s, me, now)
	return plain(claimed), err
}

func plain(s worker.Snapshot) worker.Snapshot {
	if s.Entry != nil {
		e := *s.Entry
		e.Ceiling = min(e.Ceiling, e.Timestamp)
		s.Entry = &e
	}
	return s
}
