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

// kept is where something of tags is kept: their rows, and what IDs of them were used.
type kept struct {
	store segment.Admin
	guard *zkreg.Guard        // nil: no ZooKeeper
	marks *sqlstore.HighWater // in --data-dir; nil where there are none, or they are not wanted
}

// withStore calls fn with what the settings name; no store is made.
func (a *app) withStore(ctx context.Context, cfg settings.Config, marked bool, fn func(ctx context.Context, k kept) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	named, alone := cfg.Store(false), len(cfg.ZooKeeper.Servers) == 0
	if named.Local() && alone { // as a start
		if err := cache.CheckSegments(cfg.DataDir); err != nil {
			return err
		}
	}
	store, err := sqlstore.Open(named)
	if errors.Is(err, sqlstore.ErrNoFile) {
		return fmt.Errorf("no segment store at %s: check --data-dir or --mysql; leafd serve makes one", named.Path)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	k := kept{store: store}
	path := filepath.Join(cfg.DataDir, settings.MarksFile)
	if _, missing := os.Lstat(path); marked && !errors.Is(missing, fs.ErrNotExist) {
		if k.marks, err = sqlstore.OpenHighWater(path); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, k.marks.Close()) }()
	}
	if !alone {
		if k.guard, err = zkreg.OpenGuard(cfg.ZKConfig(a.Clock)); err != nil { // it connects in the background
			return fmt.Errorf("opening the guard of the segments: %w", err)
		}
		defer func() { err = errors.Join(err, k.guard.Close()) }()
	}
	return fn(ctx, k)
}

// withTable is withStore for a change that deleted-mark-stays is about. A store in --data-dir is one
// daemon's own, with its marks beside it. Of a database that daemons share ZooKeeper alone
// knows what they have used: the marks that are here may be of one of them, or of none.
func (a *app) withTable(ctx context.Context, cfg settings.Config, fn func(ctx context.Context, t *segment.Table) error) error {
	local := cfg.Store(false).Local()
	return a.withStore(ctx, cfg, local, func(ctx context.Context, k kept) error {
		t := &segment.Table{Admin: k.store, Patience: storeTimeout / 2}
		if k.guard != nil {
			t.Guard = k.guard
		}
		if k.marks != nil {
			t.Marks = k.marks
		}
		t.Known = func(ctx context.Context, tag string) (high int64, all bool, err error) {
			if k.marks != nil {
				err = k.marks.Marks(ctx, func(name string, mark int64) {
					if name == tag {
						high = mark
					}
				})
			}
			return high, local, err
		}
		return fn(ctx, t)
	})
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
