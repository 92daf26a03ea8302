package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/worker"
)

// lock reports whether a daemon runs on the data directory.
func (p *Patient) lock(_ context.Context, r *report) {
	pid, err := cache.LockPID(p.Cfg.DataDir)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		r.OK("data-lock", "this system doesn't tell the holder of a lock")
	case err != nil:
		r.Fail("data-lock", err, "let the user that leafd runs as own the data directory")
	case pid != 0:
		r.OK("data-lock", "held by process %d: a daemon runs on this directory", pid)
	default:
		r.OK("data-lock", "free")
	}
}

// running reports whether a daemon has the data directory.
func (p *Patient) running() bool {
	pid, err := cache.LockPID(p.Cfg.DataDir)
	return err == nil && pid != 0
}

// record checks the local record as a start does.
func (p *Patient) record(_ context.Context, r *report) {
	record, err := cache.Peek(p.Cfg.DataDir)
	switch {
	case errors.Is(err, worker.ErrNoRecord):
		r.OK("record", "none: this is a first start")
		return
	case errors.Is(err, worker.ErrDamaged) && len(p.Cfg.ZooKeeper.Servers) > 0:
		r.Warn("record", err.Error(), "a start sets it aside and gets another worker ID from ZooKeeper; put nothing old in its place")
		return
	case err != nil:
		r.Fail("record", p.unwritable(err), "see docs/operations/hosts.md on a damaged record")
		return
	}
	layout := p.Cfg.Snowflake.Layout
	if record.Layout != layout.String() || record.Epoch != layout.Epoch {
		r.Fail("record", fmt.Errorf("%w: the record is of layout %s with epoch %d, and the settings say %s with epoch %d", worker.ErrForeign, record.Layout, record.Epoch, layout, layout.Epoch),
			"set the recorded ones, or take another data directory")
		return
	}
	if len(p.Cfg.ZooKeeper.Servers) == 0 {
		if err := worker.CheckStandalone(record, p.Cfg.Snowflake.WorkerID); err != nil {
			r.Fail("record", err, "")
			return
		}
	} else if record.Node != p.Cfg.Node {
		r.Warn("record", fmt.Sprintf("worker %d is recorded for node %q, and the settings make this node %q", record.WorkerID, record.Node, p.Cfg.Node), "nothing, where the name was changed on purpose: the worker ID stays")
	}
	p.judgeClock(r, record)
}

// judgeClock compares the clock with what was recorded.
func (p *Patient) judgeClock(r *report, record worker.Record) {
	now := p.wall()
	behind := inspect.BehindRecord(record, now)
	switch wait := record.Ceiling.Sub(now); {
	case behind != "":
		r.Fail("record", fmt.Errorf("%w: %s", worker.ErrClockRefused, behind), "")
	case p.running():
		r.OK("record", "worker %d of node %q, which runs", record.WorkerID, record.Node)
	case record.MaybeStale:
		r.Warn("record", fmt.Sprintf("one of the two slots of worker.json is damaged: a start now waits %s at least", p.Cfg.Tuning.CeilingLead), "nothing, where power was lost; else look into the kernel's log: the disk may be failing")
	case wait > p.Cfg.Clock.StartupTimeout:
		r.Fail("record", fmt.Errorf("%w: IDs of worker %d may have been issued up to %s, %s from now, and a start waits %s at the most", worker.ErrClockRefused, record.WorkerID, record.Ceiling, wait, p.Cfg.Clock.StartupTimeout),
			"start later, or with a longer --startup-timeout")
	case wait > 0:
		r.Warn("record", fmt.Sprintf("worker %d of node %q had an unclean stop: a start now waits %s", record.WorkerID, record.Node, wait.Round(time.Millisecond)), "nothing: the start waits by itself")
	default:
		r.OK("record", "worker %d of node %q, clock recorded %s", record.WorkerID, record.Node, record.Timestamp)
	}
}

// marks checks the file of the highest IDs seen.
func (p *Patient) marks(ctx context.Context, r *report) {
	_, marks, err := sqlstore.InspectHighWater(ctx, filepath.Join(p.Cfg.DataDir, settings.MarksFile), "")
	switch {
	case errors.Is(err, sqlstore.ErrNoFile):
		r.OK("marks", "none yet: no segment was used from this directory")
	case err != nil:
		r.Fail("marks", p.unwritable(err), "restore it; without it a table that was set back is not noticed")
	default:
		r.OK("marks", "the file is sound, with the marks of %s", tags(marks))
	}
}

// sqlite checks the file of the segments.
func (p *Patient) sqlite(ctx context.Context, r *report) {
	rows, err := sqlstore.InspectSQLite(ctx, p.Cfg.Store(false).Path)
	switch copied := cache.CheckSegments(p.Cfg.DataDir); {
	case errors.Is(err, sqlstore.ErrNoFile):
		r.OK("segments", "no %s yet: leafd creates it at its first start", settings.SegmentsFile)
	case err != nil:
		r.Fail("segments", p.unwritable(err), "restore it from a backup, and set max_id above every ID ever issued")
	case copied != nil:
		r.Fail("segments", copied, "")
	default:
		judgeTags(r, "segments", rows)
	}
}

// unwritable returns the error of a file in the data directory, with the directory's own where nothing
// can be written in it: SQLite and os.Root keep the system's error to themselves.
func (p *Patient) unwritable(err error) error {
	if why := writable(p.Cfg.DataDir + "/."); why != nil {
		return fmt.Errorf("%w (%w)", err, why)
	}
	return err
}

// mostTags bounds the tags that a line names.
const mostTags = 3

// judgeTags checks the rows of leaf_alloc.
func judgeTags(r *report, check string, rows []sqlstore.TagFacts) {
	var bad []string
	for _, row := range rows {
		switch {
		case row.Step < 1:
			bad = append(bad, fmt.Sprintf("%q: step is %d", row.Tag, row.Step))
		case row.MaxID < 0:
			bad = append(bad, fmt.Sprintf("%q: max_id is %d", row.Tag, row.MaxID))
		}
	}
	slices.Sort(bad)
	switch {
	case len(rows) == 0:
		r.Warn(check, "the table has no tag: every request for a segment ID gets 404", "leafd segment create TAG")
	case len(bad) > 0:
		if more := len(bad) - mostTags; more > 0 {
			bad = append(bad[:mostTags], fmt.Sprintf("and %d more", more))
		}
		r.Fail(check, fmt.Errorf("tags that are refused: %s", strings.Join(bad, "; ")), "set step to 1 or more, and max_id above every ID ever issued, by all daemons")
	default:
		r.OK(check, "%s, and no row is spoilt", tags(len(rows)))
	}
}

// tags returns n tags in words.
func tags(n int) string {
	if n == 1 {
		return "1 tag"
	}
	return fmt.Sprintf("%d tags", n)
}
