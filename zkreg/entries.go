package zkreg

import (
	"context"

	"github.com/leafd/leafd/worker"
)

// Entries returns all entries as Directory.Entries does, over the daemon's own session.
func (r *Registry) Entries(ctx context.Context) ([]worker.Entry, error) {
	return (&Directory{tree: r.tree, cfg: r.cfg}).Entries(ctx)
}
