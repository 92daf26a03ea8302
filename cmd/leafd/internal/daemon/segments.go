package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/zkreg"
)

// changePatience is how long a change of a tag waits for ZooKeeper, within the server's time for it.
const changePatience = 2 * time.Second

// openSegments opens the store, the marks and the guard, and the service on them, which doesn't run yet.
func (d *daemon) openSegments(ctx context.Context) (*segment.Service, error) {
	kept := d.cfg.Store(true)
	if kept.Local() { // a copy is refused
		_, err := os.Lstat(kept.Path)
		if err := d.cache.BindSegments(errors.Is(err, fs.ErrNotExist)); err != nil {
			return nil, err
		}
	}
	marks, err := d.Outside.Marks(filepath.Join(d.cfg.DataDir, settings.MarksFile))
	if err != nil {
		return nil, err
	}
	d.onClose("the marks", func(context.Context) error { return marks.Close() })
	store, err := d.Outside.Store(kept)
	if err != nil {
		return nil, err
	}
	d.onClose("the segment store", func(context.Context) error { return store.Close() })
	d.Reload.Join("store", func(cfg settings.Config) {
		if err := store.Reload(cfg.Store(false)); err != nil {
			d.Log.Error().Err(err).Msg("reload: the segment store goes on with the settings that it had")
		}
	})
	cfg := segment.Config{
		Store: store, HighWater: marks, Marks: kept.Name(), Clock: d.Clock, Node: d.cfg.Node, Life: uuid.NewString(), GuardRequired: d.cfg.GuardRequired(),
		Wait: d.cfg.Tuning.SegmentWait, Notify: d.segmentEvent, Fetched: d.metrics.Fetched,
	}
	if len(d.cfg.ZooKeeper.Servers) > 0 {
		guard, err := zkreg.OpenGuard(d.zooKeeper())
		if err != nil {
			return nil, fmt.Errorf("opening the guard of the segments: %w", err)
		}
		d.onClose("the guard of the segments", func(context.Context) error { return guard.Close() })
		cfg.Guard = guard
		if cfg.Marks, err = d.marksOf(ctx, marks); err != nil {
			return nil, err
		}
	}
	segments, err := segment.New(cfg)
	if err != nil {
		return nil, err
	}
	d.segments.Store(segments)
	d.table = &segment.Table{Admin: store, Guard: cfg.Guard, Patience: changePatience, Marks: marks, Alone: kept.Local(), Service: segments}
	d.metrics.SetSegments(segments)
	return segments, nil
}

// marksOf returns the cluster of the marks that count: that of the record, or where a daemon that issues segment IDs alone has
// none, the only one that marks here are of; "" where neither tells, and the first root that is read does.
func (d *daemon) marksOf(ctx context.Context, marks Marks) (string, error) {
	record, err := d.cache.Load()
	if err == nil && record.Cluster != "" || d.cfg.Snowflake.On {
		return record.Cluster, nil // a claim says what is wrong with the record
	}
	stores, err := marks.Stores(ctx)
	stores = slices.DeleteFunc(stores, func(name string) bool { _, err := uuid.Parse(name); return err != nil }) // a database's, a file's
	if err != nil || len(stores) != 1 {
		return "", err
	}
	return stores[0], nil
}

// inspectDatabase logs once, as soon as the server answers, what lets it lose commits.
func (d *daemon) inspectDatabase(ctx context.Context) error {
	inspector, err := d.Outside.Inspector(d.cfg.Store(false))
	if err != nil {
		return err
	}
	defer inspector.Close() //nolint:errcheck // it was only looked at
	facts, err := inspector.Server(ctx)
	for err != nil && d.Clock.Sleep(ctx, cmp.Or(d.cfg.Tuning.ReportInterval, time.Minute)) == nil {
		facts, err = inspector.Server(ctx) // looking for tags tells why it didn't answer
	}
	for _, w := range append(d.cfg.Unguarded(), facts.Weak...) {
		d.Log.Warn().Str("do", w.Do).Msg("the database: " + w.Found)
	}
	return nil
}
