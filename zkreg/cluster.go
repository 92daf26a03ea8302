package zkreg

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// InitResult is what Init found and did.
type InitResult string

// What Init did.
const (
	InitMade     InitResult = "made"          // there was none
	InitFinished InitResult = "finished"      // one before was cut short: the parent of the entries is recorded now
	InitStands   InitResult = "already_there" // nothing
)

// Init makes the cluster of d's settings, Layout among them: the root, the parent of the
// entries, and what is above them. What an Init before did not finish is finished: the
// root comes first, and records the parent last. A cluster that stands is left as it is,
// also where it has lost its entries. An error where it is for other daemons, naming both
// values.
func (d *Directory) Init(ctx context.Context) (InitResult, error) {
	if err := d.cfg.Layout.Validate(); err != nil {
		return "", err
	}
	var result InitResult
	for {
		found, _, err := d.stands(ctx)
		if err != nil && !errors.Is(err, worker.ErrNoCluster) {
			return "", err
		}
		switch {
		case found == nil:
			if err = d.makeRoot(ctx, d.newRoot(d.cfg.Layout, uuid.NewString())); err == nil {
				result = InitMade
			}
		case found.differs(d.paths, d.cfg.Layout) != "":
			return "", errors.New("a cluster stands, of other daemons: " + found.differs(d.paths, d.cfg.Layout))
		case found.whole() && result == "":
			return InitStands, nil
		case found.whole():
			return result, d.ensure(ctx, d.temporary)
		default:
			result = cmp.Or(result, InitFinished)
			_, err = d.repair(ctx, found, true)
		}
		if err != nil && !isConflict(err) {
			return "", err
		}
	}
}

// Recover notes a loss, on the word of who asks that ZooKeeper was set back to an earlier
// state: no worker ID is given out until every piece that can have been lost has ended
// (zkreg.R6). worker.ErrNoCluster, worker.ErrDamaged.
func (d *Directory) Recover(ctx context.Context) (Status, error) {
	return d.rewriteRoot(ctx, func(data *rootData, _ clock.Millis) { data.note(0) })
}

// Open has worker IDs given out again from twice the threshold after now on, on the word of
// who asks that every daemon that had one is back, or dead and never starts again.
// worker.ErrNoCluster, worker.ErrDamaged.
func (d *Directory) Open(ctx context.Context) (Status, error) {
	return d.rewriteRoot(ctx, func(data *rootData, now clock.Millis) {
		data.Floor = min(data.Floor, now.Add(d.cfg.margin()+time.Millisecond))
	})
}

// rewriteRoot changes the root, once it is whole, at a time of ZooKeeper's clock, which
// it tells with each write; and makes it whole again.
func (d *Directory) rewriteRoot(ctx context.Context, change func(data *rootData, now clock.Millis)) (Status, error) {
	changed := false
	for {
		found, t, err := d.stands(ctx)
		if err != nil {
			return Status{}, err
		}
		whole, err := t.repair(ctx, found, true)
		if whole && changed {
			return d.Status(ctx)
		}
		if whole {
			var stat *zk.Stat
			if stat, err = d.session.Set(ctx, d.root, encode(found.rootData), found.stat.Version); err == nil {
				change(&found.rootData, clock.Millis(stat.Mtime))
				_, err = d.session.Set(ctx, d.root, encode(found.rootData), stat.Version)
				changed = err == nil
			}
		}
		if err != nil && !isConflict(err) {
			return Status{}, err
		}
	}
}

// ParentState is what became of the parent of the entries.
type ParentState string

// States of the parent.
const (
	ParentRecorded   ParentState = "recorded"     // it is the one that the root has recorded
	ParentUnrecorded ParentState = "not_recorded" // the root has recorded none: a daemon's start, or Init, does it
	ParentAbsent     ParentState = "absent"       // it is gone, with all entries
	ParentOther      ParentState = "other"        // it was removed and made again
)

// Status is what stands in a root, and below it.
type Status struct {
	Cluster      string
	Layout       string
	Epoch        clock.Millis
	Forever      string // parent of the entries, the settings' where none is recorded
	ParentCzxid  int64  // as recorded; 0 for none
	Parent       ParentState
	LongestLease time.Duration
	Losses       int64        // how often a loss was noted
	Floor        clock.Millis // no worker ID is given out below it; 0: there was no loss
	Entries      int
	Live         int
}

// Status returns what stands in the root. worker.ErrNoCluster; worker.ErrDamaged.
func (d *Directory) Status(ctx context.Context) (Status, error) {
	found, t, err := d.stands(ctx)
	if err != nil {
		return Status{}, err
	}
	l, err := t.readNames(ctx)
	if err != nil {
		return Status{}, err
	}
	live, _, err := t.readLive(ctx)
	if err != nil {
		return Status{}, err
	}
	s := Status{
		Cluster: found.Cluster, Layout: found.Layout, Epoch: found.Epoch, Forever: t.forever, ParentCzxid: found.ParentCzxid,
		LongestLease: time.Duration(found.LongestLease) * time.Millisecond, Losses: found.Losses, Floor: found.Floor,
		Entries: len(l.names), Live: len(live),
	}
	switch {
	case l.stat == nil:
		s.Parent = ParentAbsent
	case found.has(l.stat):
		s.Parent = ParentRecorded
	case found.ParentCzxid == 0:
		s.Parent = ParentUnrecorded
	default:
		s.Parent = ParentOther
	}
	return s, nil
}
