package zkreg

import (
	"context"
	"errors"
	"fmt"
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
	InitFinished InitResult = "finished"      // it was begun, or made by a former release: the parent of the entries is recorded now
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
	result := InitStands
	for {
		if err := d.session.Sync(ctx, d.root); err != nil {
			return "", err
		}
		found, err := d.readRoot(ctx)
		if err != nil {
			return "", err
		}
		switch {
		case found == nil || found.Cluster == "":
			if err = d.makeRoot(ctx, found, d.newRoot(d.cfg.Layout, uuid.NewString())); err == nil {
				result = InitMade
			}
		case found.differs(d.paths, d.cfg.Layout) != "":
			return "", errors.New("zkreg: a cluster stands, of other daemons: " + found.differs(d.paths, d.cfg.Layout))
		case found.ParentCzxid != 0 && result == InitStands:
			return result, nil
		case found.ParentCzxid != 0:
			return result, d.ensure(ctx, d.temporary)
		default:
			if result == InitStands {
				result = InitFinished
			}
			_, parent, err2 := d.session.Exists(ctx, d.forever)
			if err = err2; err == nil {
				err = d.recordParent(ctx, found, parent)
			}
		}
		if err != nil && !isConflict(err) {
			return "", err
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
	Losses       int64        // how often the entries were lost and put back
	Floor        clock.Millis // 0: none
	Entries      int
	Live         int
}

// Status returns what stands in the root. worker.ErrNoCluster; worker.ErrDamaged.
func (d *Directory) Status(ctx context.Context) (Status, error) {
	if err := d.session.Sync(ctx, d.root); err != nil {
		return Status{}, err
	}
	found, err := d.readRoot(ctx)
	if err != nil {
		return Status{}, err
	}
	if found == nil || found.Cluster == "" {
		return Status{}, fmt.Errorf("%w: nothing is at %s in ZooKeeper; a cluster is made with: %s", worker.ErrNoCluster, d.root, d.cfg.initCommand())
	}
	t := d.tree
	if found.Forever != "" {
		t.forever = found.Forever
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
