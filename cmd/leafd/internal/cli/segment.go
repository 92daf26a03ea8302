package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/zkreg"
)

// storeTimeout bounds one command's work on the store.
const storeTimeout = 15 * time.Second

func (a *app) segmentCmd() *cobra.Command {
	return group(&cobra.Command{
		Use:   "segment",
		Short: "List and change the tags of segment IDs",
		Long: `List and change the tags of segment IDs, straight in the store: the database of --mysql,
or the SQLite file in --data-dir. No daemon need be running. Those that are see a change
within a minute, and a deletion when they fetch for the tag, or within an hour.

A daemon changes tags too, by its HTTP interface and for the bearer of its admin token: it
writes each change and its caller into its log, and serves the change at once.`,
	}, a.segmentListCmd(), a.segmentCreateCmd(), a.segmentUpdateCmd(), a.segmentDeleteCmd(), a.segmentForgetCmd())
}

// storeCommand is command for one that has the settings that say where the store is, and ZooKeeper.
func (a *app) storeCommand(cmd *cobra.Command, run func(ctx context.Context, cfg settings.Config, args []string) error, more ...string) *cobra.Command {
	return a.command(cmd, run, slices.Concat(more, settings.ConnectionNames(), []string{"data-dir", "mysql", "mysql-password-file", "mysql-tls-ca"})...)
}

// withStore calls fn with the store that cfg names, and the guard of its segments, nil without
// ZooKeeper; no store is made.
func (a *app) withStore(ctx context.Context, cfg settings.Config, fn func(ctx context.Context, store segment.Admin, guard *zkreg.Guard) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	kept := cfg.Store(false)
	alone := len(cfg.ZooKeeper.Servers) == 0
	if kept.Local() && alone { // as a start
		if err := cache.CheckSegments(cfg.DataDir); err != nil {
			return err
		}
	}
	store, err := sqlstore.Open(kept)
	if errors.Is(err, sqlstore.ErrNoFile) {
		return fmt.Errorf("no segment store at %s: check --data-dir or --mysql; leafd serve makes one", kept.Path)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if alone {
		return fn(ctx, store, nil)
	}
	guard, err := zkreg.OpenGuard(cfg.ZKConfig(a.Clock)) // it connects in the background
	if err != nil {
		return fmt.Errorf("opening the guard of the segments: %w", err)
	}
	defer func() { err = errors.Join(err, guard.Close()) }()
	return fn(ctx, store, guard)
}

// withTable is withStore for a change that deleted-mark-stays is about. A store in --data-dir is one
// daemon's own, with its marks beside it. Of a database that daemons share ZooKeeper alone
// knows what they have used: the marks that are here may be of one of them, or of none.
func (a *app) withTable(ctx context.Context, cfg settings.Config, fn func(ctx context.Context, t *segment.Table) error) error {
	return a.withStore(ctx, cfg, func(ctx context.Context, store segment.Admin, guard *zkreg.Guard) error {
		local := cfg.Store(false).Local()
		return withMarks(cfg, local, func(marks *sqlstore.HighWater) error {
			t := &segment.Table{Admin: store, Patience: storeTimeout / 2}
			if guard != nil {
				t.Guard = guard
			}
			t.Known = func(ctx context.Context, tag string) (high int64, all bool, err error) {
				if marks != nil {
					err = marks.Marks(ctx, func(name string, mark int64) {
						if name == tag {
							high = mark
						}
					})
				}
				return high, local, err
			}
			if marks != nil {
				t.Marks = marks
			}
			return fn(ctx, t)
		})
	})
}

// withMarks calls fn with the marks in --data-dir; nil where there are none, or they are not wanted.
func withMarks(cfg settings.Config, wanted bool, fn func(marks *sqlstore.HighWater) error) (err error) {
	path := filepath.Join(cfg.DataDir, settings.MarksFile)
	if _, err := os.Lstat(path); !wanted || errors.Is(err, fs.ErrNotExist) {
		return fn(nil)
	}
	marks, err := sqlstore.OpenHighWater(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, marks.Close()) }()
	return fn(marks)
}

// SegmentJSON is a tag for programs. max_id is a string as IDs are: JavaScript's
// numbers lose their last digits.
type SegmentJSON struct {
	Tag         string `json:"tag"`
	MaxID       string `json:"max_id"`
	Step        int64  `json:"step"`
	Description string `json:"description"`
	UpdateTime  string `json:"update_time,omitempty"` // RFC 3339, UTC
	// Which daemon fetched last, and when, by the high mark in ZooKeeper: of list with --zk.
	FetchedBy string `json:"fetched_by,omitempty"`
	FetchedAt string `json:"fetched_at,omitempty"` // RFC 3339, UTC
}

func rowJSON(row segment.Row) SegmentJSON {
	j := SegmentJSON{Tag: row.Tag, MaxID: Decimal(row.MaxID), Step: row.Step, Description: row.Description}
	if !row.UpdateTime.IsZero() {
		j.UpdateTime = row.UpdateTime.UTC().Format(time.RFC3339)
	}
	return j
}

// given is value, which the flag called name has set, nil where that wasn't given.
func given[T any](cmd *cobra.Command, name string, value *T) *T {
	if cmd.Flags().Changed(name) {
		return value
	}
	return nil
}
