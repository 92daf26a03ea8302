package walktest

import (
	"context"
	"time"

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
func (r plainRegistry) Look(ctx context.Context, self worker.Record) (worker.Lookup, error) {
	found, err := r.Registry.Look(ctx, self)
	found.Ceiling = min(found.Ceiling, found.Timestamp)
	return found, err
}

// Claim implements worker.Registry.
func (r plainRegistry) Claim(ctx context.Context, self worker.Record, lease time.Duration) (worker.Record, error) {
	claimed, err := r.Registry.Claim(ctx, self, lease)
	claimed.Ceiling = min(claimed.Ceiling, claimed.Timestamp)
	return claimed, err
}
