package daemon

import (
	"cmp"
	"context"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
)

// inspectDatabase logs once, as soon as the server answers, what lets it lose commits.
func (d *daemon) inspectDatabase(ctx context.Context) error {
	inspector, err := sqlstore.OpenInspector(d.cfg.Store(false))
	if err != nil {
		return err
	}
	defer inspector.Close() //nolint:errcheck // it was only looked at
	facts, err := inspector.Server(ctx)
	for err != nil && d.Clock.Sleep(ctx, cmp.Or(d.cfg.Tuning.SegmentRefresh, segment.DefaultRefresh)) == nil {
		facts, err = inspector.Server(ctx) // reading the tags tells why it didn't answer
	}
	for _, w := range append(d.cfg.Unguarded(), facts.Weak...) {
		d.Log.Warn().Str("do", w.Do).Msg("the database: " + w.Found)
	}
	return nil
}
