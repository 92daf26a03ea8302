package daemon

import (
	"cmp"
	"context"
	"time"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
)

// inspectTimeout bounds one look at the database server.
const inspectTimeout = 5 * time.Second

// inspectDatabase logs once, as soon as the server answers, what lets it lose commits.
func (d *daemon) inspectDatabase(ctx context.Context) error {
	again := cmp.Or(d.cfg.Tuning.SegmentRefresh, segment.DefaultRefresh)
	weak, err := d.weaknesses(ctx)
	for err != nil && d.Clock.Sleep(ctx, again) == nil { // reading the tags tells why it doesn't answer
		weak, err = d.weaknesses(ctx)
	}
	for _, w := range append(d.cfg.Unguarded(), weak...) {
		d.Log.Warn().Str("do", w.Do).Msg("the database: " + w.Found)
	}
	return nil
}

func (d *daemon) weaknesses(ctx context.Context) ([]sqlstore.Weakness, error) {
	inspector, err := sqlstore.OpenInspector(d.cfg.Store(false))
	if err != nil {
		return nil, err
	}
	defer inspector.Close() //nolint:errcheck // it was only looked at
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	facts, err := inspector.Server(ctx)
	return facts.Weak, err
}
