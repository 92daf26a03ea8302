package zkreg

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

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
// also where it has lost its entries. longest is the longest lease that a daemon of it may
// have, six hours at least (worker.YoungLease). An error where it is for other daemons, naming both
// values. Only with fresh is one made where nothing stands: else worker.ErrNoCluster.
func (d *Directory) Init(ctx context.Context, longest time.Duration, fresh bool) (InitResult, error) {
	if err := cmp.Or(d.cfg.Layout.Validate(), want(longest >= worker.YoungLease, "longest lease %s: want at least %s", longest, worker.YoungLease)); err != nil {
		return "", err
	}
	var result InitResult
	for {
		s, root, t, err := d.look(ctx, worker.NoWorkerID)
		switch {
		case err != nil:
			return "", err
		case s.Root == nil && !fresh:
			return "", d.absent()
		case s.Root == nil:
			if err = d.makeRoot(ctx, d.newRoot(d.cfg.Layout, uuid.NewString(), longest)); err == nil {
				result = InitMade
			}
		case root.differs(d.paths, d.cfg.Layout) != "":
			return "", errors.New("a cluster stands, of other daemons: " + root.differs(d.paths, d.cfg.Layout))
		case root.ParentCzxid == 0: // it is being made, or made again
			result = cmp.Or(result, InitFinished)
			err = t.repair(ctx, root, s)
		case result == "":
			return InitStands, nil
		default:
			return result, d.ensure(ctx, d.temporary, d.released)
		}
		if err != nil && !errors.Is(err, worker.ErrChanged) {
			return "", err
		}
	}
}

// Recover notes a loss, on the word of the operator that ZooKeeper was set back to an earlier
// state: no worker ID is given out until every piece that can have been lost has ended
// (zkreg.R6). In a tree that Java Leafs share, it keeps them from all numbers that they have not
// got (zkreg.R9). worker.ErrNoCluster, worker.ErrDamaged.
func (d *Directory) Recover(ctx context.Context) (Status, error) {
	return d.rewriteRoot(ctx, func(t tree, data *rootData) error {
		names, stat, err := t.readNames(ctx)
		if err != nil || stat == nil {
			return cmp.Or(err, fmt.Errorf("%w: %s is gone", worker.ErrChanged, t.forever))
		}
		shared := t.forever != usualForever(t.root) || slices.ContainsFunc(names, func(name entryName) bool { return !name.isOurs() })
		if shared && counterOf(stat) < javaIDs {
			if err := t.change(ctx, t.spendCounter(javaIDs)...); err != nil {
				return err
			}
		}
		return t.note(ctx, data, 0)
	})
}

// Open has worker IDs given out again from twice the threshold after now on, on the word of
// the operator that every daemon that had one is back, or dead and never starts again.
// worker.ErrNoCluster, worker.ErrDamaged.
func (d *Directory) Open(ctx context.Context) (Status, error) {
	return d.rewriteRoot(ctx, func(t tree, data *rootData) error {
		now, err := t.zkNow(ctx)
		data.Floor = min(data.Floor, now.Add(d.cfg.margin()+time.Millisecond))
		return err
	})
}

// rewriteRoot changes the root, once it names its parent.
func (d *Directory) rewriteRoot(ctx context.Context, change func(tree, *rootData) error) (Status, error) {
	for {
		s, root, t, err := d.stands(ctx)
		if err != nil {
			return Status{}, err
		}
		if s.Root.Parent == 0 || s.Root.Parent != s.Parent {
			err = t.repair(ctx, root, s)
		} else if err = change(t, &root); err == nil {
			if err = t.setRoot(ctx, root, s); err == nil {
				return d.Status(ctx)
			}
		}
		if err != nil && !errors.Is(err, worker.ErrChanged) {
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
	*worker.Root
	Layout  string
	Epoch   clock.Millis
	Forever string       // parent of the entries, the settings' where none is recorded
	Parent  ParentState  // Root.Parent is as recorded
	LostAt  clock.Millis // the last time that a loss was noted; 0: never
	Entries int
	Live    int
	Known   []string // addresses of the peers that the daemon knew which noted the last loss
}

// Status returns what stands in the root. worker.ErrNoCluster; worker.ErrDamaged.
func (d *Directory) Status(ctx context.Context) (Status, error) {
	seen, root, t, err := d.stands(ctx)
	if err != nil {
		return Status{}, err
	}
	names, _, err := t.readNames(ctx)
	if err != nil {
		return Status{}, err
	}
	live, _, err := t.readLive(ctx)
	if err != nil {
		return Status{}, err
	}
	known, _, err := t.read(ctx, t.temporary)
	s := Status{Root: seen.Root, Layout: root.Layout, Epoch: root.Epoch, Forever: t.forever, Parent: ParentOther, LostAt: root.LostAt, Entries: len(names), Live: len(live)}
	_ = json.Unmarshal(known, &s.Known) // nothing rests on it
	switch {
	case seen.Parent == 0:
		s.Parent = ParentAbsent
	case seen.Parent == root.ParentCzxid:
		s.Parent = ParentRecorded
	case root.ParentCzxid == 0:
		s.Parent = ParentUnrecorded
	}
	return s, err
}
