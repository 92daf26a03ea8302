package zkreg

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// The root tells what ZooKeeper has lost. It keeps:
//
//	loss-raises-floor  A loss is noted before anything else is done about it: Losses is raised, and Floor
//	    lies beyond the limit of every piece that can have been lost: the time of the note by
//	    ZooKeeper's clock, the longest lease, and twice the threshold. While Parent is 0,
//	    or another one than the parent's, nothing is claimed.
//	root-floor  While ZooKeeper's now is below Floor no instance gets a worker ID that it did
//	    not hold, and no piece begins below it.
//	-  Only an operator makes a cluster (Init). A root that is gone is made again, as
//	    the same cluster, only by instances that belong to it.
//	-  LongestLease is set once, when the cluster is made, and no daemon has a longer one.
//	longest-lend  So is LongestLend: by it all slices of another life, of any daemon, have ended when one lends.
//	-  Where Java Leafs share the tree, a parent that is made again, by any process, has the
//	    counter beyond every worker ID of theirs before the root names it, and so after a
//	    Recover: none of them gets one that a leafd holds.

func statOf(s *zk.Stat) worker.Stat {
	return worker.Stat{Version: s.Version, Czxid: s.Czxid, Mzxid: s.Mzxid, Ctime: clock.Millis(s.Ctime), Mtime: clock.Millis(s.Mtime)}
}

// FixRoot implements worker.Registry.
func (r *Registry) FixRoot(ctx context.Context, s worker.Snapshot, me worker.Record, do worker.Action) error {
	switch do {
	case worker.MakeRoot:
		return r.lose(ctx, r.newRoot(me.Cluster, me.LongestLease, me.LongestLend), s, me)
	case worker.Repair:
		return r.repair(ctx, s, me)
	case worker.NoteLoss:
		return r.lose(ctx, *s.Root, s, me)
	case worker.RaiseSession:
		d := *s.Root
		d.LongestSessionMS = max(d.LongestSessionMS, s.Granted.Milliseconds())
		return r.setRoot(ctx, d, s)
	default:
		return r.absent()
	}
}

// lose notes a loss in d, which is the root of s or will be the root, and makes it name no parent where
// that is another one. The same transaction keeps the addresses that me knows of others, so that an operator
// sees which are not back: one that comes later knows only those that are.
func (t tree) lose(ctx context.Context, d worker.Root, s worker.Snapshot, me worker.Record) error {
	if d.Parent != s.Parent {
		d.Parent = 0
	}
	d.Losses = max(d.Losses, me.Losses)
	d.LongestSessionMS = max(d.LongestSessionMS, me.LongestSession.Milliseconds())
	if err := t.note(ctx, &d); err != nil {
		return err
	}
	if len(me.Peers) == 0 {
		return t.setRoot(ctx, d, s)
	}
	found, _, err := t.session.Exists(ctx, t.temporary)
	if err != nil {
		return err
	}
	known := createNode(t.temporary, encode(me.Peers), 0)
	if found {
		known = setData(t.temporary, encode(me.Peers), -1)
	}
	return t.setRoot(ctx, d, s, known)
}

// setRoot makes the root d where it is as s shows it, and does more in the same transaction. Where s shows
// none it is made, or filled where it is empty: made as another's parent, by hand perhaps. It returns
// worker.ErrChanged if it is another by now.
func (t tree) setRoot(ctx context.Context, d worker.Root, s worker.Snapshot, more ...any) error {
	if s.Root == nil {
		if err := t.ensure(ctx, append(parents(t.root), t.root)...); err != nil {
			return err
		}
		data, stat, err := t.read(ctx, t.root)
		switch {
		case err != nil:
			return err
		case stat == nil || len(data) > 0:
			return fmt.Errorf("%w: %s is gone, or stands", worker.ErrChanged, t.root)
		}
		d.Stat = statOf(stat)
	}
	_, err := t.change(ctx, s, append([]any{setData(t.root, encode(d), d.Stat.Version)}, more...)...)
	return err
}

// errTaken is in the chain of a worker.ErrChanged where the root, and the connection, are as they were: it is
// about the entry alone.
var errTaken = errors.New("another was faster")

// change does ops, of which the first checks or writes the root, over the connection of s or not at all
// (root-checked). It returns worker.ErrChanged if they meet another state, with errTaken if that is not the
// root's.
func (t tree) change(ctx context.Context, s worker.Snapshot, ops ...any) ([]zk.MultiResponse, error) {
	// A snapshot that was read over no connection is written over none.
	responses, err := t.session.Multi(ctx, cmp.Or(s.Conn, math.MaxUint64), ops...)
	switch {
	case isConflict(err) && len(responses) > 0 && responses[0].Error == nil: // the error is that of the first that failed
		err = fmt.Errorf("%w: %w: %w", worker.ErrChanged, errTaken, err)
	case isConflict(err), errors.Is(err, zksession.ErrOtherConnection):
		err = fmt.Errorf("%w: %w", worker.ErrChanged, err)
	}
	return responses, err
}

// repair does the next step towards a root that names its parent. A parent that is gone, or
// another one, is a loss; it is noted first (loss-raises-floor). One that is made again has the counter
// beyond the Java Leafs' worker IDs, and so has one that a Java Leaf made.
func (t tree) repair(ctx context.Context, s worker.Snapshot, me worker.Record) error {
	d := *s.Root
	if d.Parent != 0 {
		return t.lose(ctx, d, s, me)
	}
	if err := t.ensure(ctx, append(parents(t.forever), t.released, t.temporary)...); err != nil {
		return err
	}
	var counter []any
	if d.Losses > 0 && t.forever != usualForever(t.root) {
		counter = t.spendCounter(javaIDs)
	}
	if s.Parent == 0 {
		_, err := t.change(ctx, s, append([]any{check(t.root, d.Stat.Version), createNode(t.forever, nil, 0)}, counter...)...)
		return err
	}
	d.Parent = s.Parent
	return t.setRoot(ctx, d, s, counter...)
}

// counterOf returns the number that the next sequential node below stat's gets (measured,
// ZooKeeper 3.8).
func counterOf(stat *zk.Stat) int64 { return (int64(stat.Cversion) + int64(stat.NumChildren)) / 2 }

// javaIDs is how many worker IDs a Java Leaf can have.
const javaIDs = 1024

// spendCounter moves ZooKeeper's counter of the entries on by n: it counts each node that was
// made, under any name (measured, ZooKeeper 3.8).
func (t tree) spendCounter(n int) []any {
	ops := make([]any, 0, 2*n)
	p := t.forever + "/counter"
	for range n {
		ops = append(ops, createNode(p, nil, 0), deleteNode(p, 0))
	}
	return ops
}

// note notes a loss in d.
func (t tree) note(ctx context.Context, d *worker.Root) error {
	now, err := t.zkNow(ctx)
	if err != nil {
		return err
	}
	d.Losses, d.LostAt = d.Losses+1, now
	// The daemon that was lost may have a greater threshold than the one that notes it.
	margin := max(t.cfg.margin(), Config{}.margin())
	d.Floor = max(d.Floor, now.Add(d.LongestLease()+margin))
	return nil
}

// zkNow returns the time on ZooKeeper's clock, which it tells with each write.
func (t tree) zkNow(ctx context.Context) (clock.Millis, error) {
	write := setData(t.released, nil, -1)
	done, err := t.session.Multi(ctx, 0, write)
	if errors.Is(err, zk.ErrNoNode) {
		if err = t.ensure(ctx, append(parents(t.released), t.released)...); err == nil {
			done, err = t.session.Multi(ctx, 0, write)
		}
	}
	if err != nil {
		return 0, err
	}
	return clock.Millis(done[0].Stat.Mtime), nil
}

// newRoot returns the root of a cluster that has lost nothing, and has no parent yet.
func (t tree) newRoot(cluster string, lease, lend time.Duration) worker.Root {
	return worker.Root{
		Cluster: cluster, Epoch: t.cfg.Layout.Epoch, Layout: t.cfg.Layout.String(), Forever: t.forever,
		LongestLeaseMS: lease.Milliseconds(), LongestSessionMS: DefaultSessionTimeout.Milliseconds(), LongestLendMS: lend.Milliseconds(),
	}
}

// ensure creates those of all that are missing, empty. It looks first: what is
// there may be below something that we may not write.
func (t tree) ensure(ctx context.Context, all ...string) error {
	for _, p := range all {
		found, _, err := t.session.Exists(ctx, p)
		if err == nil && !found {
			_, err = t.session.Multi(ctx, 0, createNode(p, nil, 0))
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}

// InitResult is what Init found and did.
type InitResult string

// What Init did.
const (
	InitMade     InitResult = "made"          // there was none
	InitFinished InitResult = "finished"      // one before was cut short: the parent of the entries is recorded now
	InitStands   InitResult = "already_there" // nothing
)

// Init makes the cluster of d's settings, Layout among them: the root, the parent of the entries, and what is above them.
// What an Init before did not finish is finished: the root comes first, and records the parent last. A cluster that stands
// is left as it is, also where it has lost its entries. lease is the longest that a daemon of it may have, six hours at
// least (worker.YoungLease), and lend the longest for which it may lend numbers. Only with fresh is one made where nothing
// stands. It returns worker.ErrNoCluster if none stands and fresh is false, and an error that has both values if one stands
// for other daemons.
func (d *Directory) Init(ctx context.Context, lease, lend time.Duration, fresh bool) (InitResult, error) {
	return d.init(ctx, lease, lend, fresh, worker.Record{})
}

// Again makes the cluster that r belongs to once more, as after a loss of data, on the word of the operator
// that this ensemble takes the place of the one that r has seen. It returns what Init does.
func (d *Directory) Again(ctx context.Context, r worker.Record) (InitResult, error) {
	return d.init(ctx, r.LongestLease, r.LongestLend, true, r)
}

func (d *Directory) init(ctx context.Context, lease, lend time.Duration, fresh bool, of worker.Record) (InitResult, error) {
	if err := cmp.Or(d.cfg.Layout.Validate(), want(lease >= worker.YoungLease, "longest lease %s: want at least %s", lease, worker.YoungLease)); err != nil {
		return "", err
	}
	var result InitResult
	for range mostTries {
		s, t, err := d.look(ctx, worker.NoWorkerID)
		switch {
		case err != nil:
			return "", err
		case s.Root == nil && !fresh:
			return "", d.absent()
		case s.Root == nil && of.Cluster != "":
			if err = t.lose(ctx, t.newRoot(of.Cluster, lease, lend), s, of); err == nil {
				result = InitMade
			}
		case s.Root == nil:
			if err = t.setRoot(ctx, t.newRoot(uuid.NewString(), lease, lend), s); err == nil {
				result = InitMade
			}
		case d.cfg.differs(d.paths, *s.Root) != nil:
			return "", fmt.Errorf("a cluster stands, of other daemons: %w", d.cfg.differs(d.paths, *s.Root))
		case s.Root.Parent == 0: // it is being made, or made again
			result = cmp.Or(result, InitFinished)
			err = t.repair(ctx, s, of)
		default:
			return cmp.Or(result, InitStands), nil
		}
		if err != nil && !errors.Is(err, worker.ErrChanged) {
			return "", err
		}
	}
	return "", fmt.Errorf("%w: %s was changed again and again", worker.ErrChanged, d.root)
}

// Recover notes a loss, on the word of the operator that ZooKeeper was set back to an earlier state: no
// worker ID is given out until every piece that can have been lost has ended (loss-raises-floor). In a tree
// that Java Leafs share, it keeps them from all numbers that they have not got. It returns errors as Status
// does.
func (d *Directory) Recover(ctx context.Context) (Status, error) {
	return d.rewriteRoot(ctx, func(t tree, data *worker.Root) (counter []any, err error) {
		names, stat, err := t.readNames(ctx)
		if err != nil || stat == nil {
			return nil, cmp.Or(err, fmt.Errorf("%w: %s is gone", worker.ErrChanged, t.forever))
		}
		shared := t.forever != usualForever(t.root) || slices.ContainsFunc(names, func(name entryName) bool { return !name.isOurs() })
		if shared && counterOf(stat) < javaIDs {
			counter = t.spendCounter(javaIDs)
		}
		return counter, t.note(ctx, data)
	})
}

// Open has worker IDs given out again from twice the threshold after now on, on the word of the operator that
// every daemon that had one is back, or dead and never starts again. It returns errors as Status does.
func (d *Directory) Open(ctx context.Context) (Status, error) {
	return d.rewriteRoot(ctx, func(t tree, data *worker.Root) ([]any, error) {
		now, err := t.zkNow(ctx)
		data.Floor = min(data.Floor, now.Add(d.cfg.margin()+time.Millisecond))
		return nil, err
	})
}

// rewriteRoot changes the root, once it names its parent, and does what change returns in the same
// transaction.
func (d *Directory) rewriteRoot(ctx context.Context, change func(tree, *worker.Root) ([]any, error)) (Status, error) {
	for range mostTries {
		s, t, err := d.stands(ctx)
		if err != nil {
			return Status{}, err
		}
		var more []any
		root := *s.Root
		if root.Parent == 0 || root.Parent != s.Parent {
			err = t.repair(ctx, s, worker.Record{})
		} else if more, err = change(t, &root); err == nil {
			if err = t.setRoot(ctx, root, s, more...); err == nil {
				return d.Status(ctx)
			}
		}
		if err != nil && !errors.Is(err, worker.ErrChanged) {
			return Status{}, err
		}
	}
	return Status{}, fmt.Errorf("%w: %s was changed again and again", worker.ErrChanged, d.root)
}

// Status is what stands in a root, and below it. The parent is as it should be where it is the one that the
// root has recorded.
type Status struct {
	*worker.Root
	Parent  int64 // czxid of the entries' parent, 0 for none; Root.Parent is as recorded
	Entries int
	Live    int
	Known   []string // addresses of the peers that the daemon knew which noted the last loss
}

// Status returns what stands in the root. It returns worker.ErrNoCluster if there is none, and
// worker.ErrDamaged if it can't be read.
func (d *Directory) Status(ctx context.Context) (Status, error) {
	seen, t, err := d.stands(ctx)
	if err != nil {
		return Status{}, err
	}
	names, _, err := t.readNames(ctx)
	live, _, errLive := t.readLive(ctx)
	known, _, errKnown := t.read(ctx, t.temporary)
	s := Status{Root: seen.Root, Parent: seen.Parent, Entries: len(names), Live: len(live)}
	_ = json.Unmarshal(known, &s.Known) // nothing rests on it
	return s, cmp.Or(err, errLive, errKnown)
}
