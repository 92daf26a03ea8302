package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
or the SQLite file in --data-dir of a standalone daemon. No daemon need be running. Those that are serve
a new tag within a second, take a changed step at their next fetch, and drop a deleted tag within seconds
where few tags are in use, at the latest when they fetch for it.

A daemon changes tags too, by its HTTP interface and for the bearer of its admin token: it
writes each change and its caller into its log, and serves the change at once.`,
	}, a.segmentListCmd(), a.segmentCreateCmd(), a.segmentUpdateCmd(), a.segmentDeleteCmd())
}

// storeCommand returns command for one that has the settings that say where the store is, and ZooKeeper.
func (a *app) storeCommand(cmd *cobra.Command, run func(ctx context.Context, cfg settings.Config, args []string) error, more ...string) *cobra.Command {
	return a.command(cmd, run, append(more, "zk*", "data-dir", "mysql", "mysql-password-file", "mysql-tls-ca")...)
}

// withTable calls fn with the table that the settings name; no store is made. With ZooKeeper that alone knows what daemons have
// used: the marks that are here may be of one of them, or of none. Without it the marks are all that is known.
func (a *app) withTable(ctx context.Context, cfg settings.Config, fn func(ctx context.Context, t *segment.Table) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	named, cluster := cfg.Store(false), len(cfg.ZooKeeper.Servers) > 0
	what := "the segment store, " + named.Name()
	if cluster {
		what += ", and ZooKeeper at " + strings.Join(cfg.ZooKeeper.Servers, ",")
	}
	defer a.waits("%s, for %s at most", what, settings.Short(storeTimeout))()
	if cluster && named.Local() {
		return settings.Usagef("want --mysql with --zk: the segments of a cluster are in a database that its daemons share")
	}
	if named.Local() { // as a start
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
	t := &segment.Table{Admin: store, Patience: storeTimeout / 2, Alone: named.Local()}
	if cluster {
		var guard *zkreg.Guard
		if guard, err = zkreg.OpenGuard(cfg.ZKConfig(a.Clock)); err != nil { // it connects in the background
			return fmt.Errorf("opening the guard of the segments: %w", err)
		}
		defer func() { err = errors.Join(err, guard.Close()) }()
		t.Guard = guard
		return fn(ctx, t)
	}
	path := filepath.Join(cfg.DataDir, settings.MarksFile)
	if _, missing := os.Lstat(path); !errors.Is(missing, fs.ErrNotExist) {
		var marks *sqlstore.HighWater
		if marks, err = sqlstore.OpenHighWater(path); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, marks.Close()) }()
		if _, err = marks.Use(ctx, named.Name()); err != nil {
			return err
		}
		t.Marks = marks
	}
	return fn(ctx, t)
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

// given returns value, which the flag called name has set, nil where that wasn't given.
func given[T any](cmd *cobra.Command, name string, value *T) *T {
	if cmd.Flags().Changed(name) {
		return value
	}
	return nil
}
