package zkreg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// The root tells what ZooKeeper has lost. It keeps:
//
//	zkreg.R5  Only an operator makes a cluster (Init). A root that is gone is made again, as
//	    the same cluster, by those who belong to it alone.
//	zkreg.R6  A loss is noted before anything else is done about it: Losses is raised, and
//	    ParentCzxid is 0 until whoever comes next, newcomers too, has recorded the parent
//	    that there is and, in the same write, raised Floor beyond the limit of every
//	    piece that can have been lost: the time of the note, and the longest lease, and
//	    twice the threshold. While the root is not whole nothing is claimed.
//	zkreg.R7  While ZooKeeper's now is below Floor nobody gets a worker ID that he did not
//	    hold, and no piece begins below it.
//	zkreg.R8  The root's LongestLease is raised before a longer lease is used, and a threshold
//	    greater than usual counts as a longer lease (Config.reach).

// root is the root as it was read.
type root struct {
	rootData
	stat *zk.Stat
}

// has tells that parent is the one that the root has recorded.
func (d rootData) has(parent *zk.Stat) bool { return parent != nil && parent.Czxid == d.ParentCzxid }

// record is rec as of a daemon whose entry stands under r.
func (r *root) record(rec worker.Record) worker.Record {
	rec.Cluster, rec.Losses, rec.LongestLease = r.Cluster, r.Losses, time.Duration(r.LongestLease)*time.Millisecond
	rec.Confirmed = true
	return rec
}

// lost tells that ZooKeeper lost what it has acknowledged to self; e is what has self's
// worker ID, nil for nothing. Whose piece has ended, or was given back, may find another there.
func (r *root) lost(self worker.Record, e *entry) bool {
	if self.Cluster == "" || self.WorkerID < 0 || !self.Confirmed || self.Released {
		return false
	}
	return r == nil || r.Losses < self.Losses || e == nil ||
		e.stat.Mzxid < self.Change || e.damaged == nil && e.data.State == worker.StateActive && self.Holds(e.listed()) && e.data.Limit < self.Limit
}

// whole tells that nothing is being made, or remade.
func (d rootData) whole() bool { return d.ParentCzxid != 0 }

// ensureTree returns the root that stands, whole, with the parent of the entries that it has
// recorded. known is what the caller has known of the root; empty for a newcomer.
// worker.ErrForeign; worker.ErrNoCluster for those who don't belong.
func (r *Registry) ensureTree(ctx context.Context, known rootData) (*root, error) {
	for {
		found, err := r.readRoot(ctx)
		switch {
		case err != nil:
			return nil, err
		case found == nil && known.Cluster == "":
			return nil, r.noRoot()
		case found == nil:
			again := r.newRoot(r.cfg.Layout, known.Cluster)
			again.Losses, again.unknown = known.Losses+1, known.unknown
			again.LongestLease = max(again.LongestLease, known.LongestLease, r.cfg.reach())
			err = r.makeRoot(ctx, again)
		default:
			if err := found.check(r.paths, r.cfg.Layout, known.Cluster); err != nil {
				return nil, err
			}
			var whole bool
			if whole, err = r.repair(ctx, found, known.Cluster != ""); whole {
				return found, r.ensure(ctx, r.temporary)
			}
		}
		if err != nil && !isConflict(err) {
			return nil, err
		}
	}
}

// repair does the next step towards a whole root; true where nothing is left to do. A root
// that lost nothing and has no parent at all is one of an Init that was cut short: it is the
// operator's to finish, or a member's.
// worker.ErrNoCluster.
func (t tree) repair(ctx context.Context, found *root, member bool) (bool, error) {
	_, parent, err := t.session.Exists(ctx, t.forever)
	if err != nil {
		return false, err
	}
	d := found.rootData
	d.LongestLease = max(d.LongestLease, t.cfg.reach())
	switch {
	case found.unfinished(parent) && !member:
		return false, t.unfinished()
	case d.ParentCzxid == 0 && parent == nil:
		return false, t.ensure(ctx, append(parents(t.forever), t.forever)...)
	case d.ParentCzxid == 0:
		d.ParentCzxid = parent.Czxid
		if d.Losses > 0 { // zkreg.R6
			// Who was lost may have a greater threshold than whoever comes first.
			margin := max(t.cfg.margin(), Config{}.margin())
			d.Floor = max(d.Floor, clock.Millis(found.stat.Mtime).Add(time.Duration(d.LongestLease)*time.Millisecond+margin))
		}
	case !d.has(parent):
		d.note(0)
	case d.LongestLease == found.LongestLease:
		return true, nil
	}
	_, err = t.session.Set(ctx, t.root, encode(d), found.stat.Version)
	return false, err
}

// note notes a loss (zkreg.R6), of which somebody has seen so many before.
func (d *rootData) note(seen int64) { d.Losses, d.ParentCzxid = max(d.Losses, seen)+1, 0 }

// noteLoss notes in the root that ZooKeeper lost what it acknowledged to self, unless
// somebody has since self did: so that who comes back late doesn't close the cluster
// for another lease. It returns the root as it is then.
func (r *Registry) noteLoss(ctx context.Context, found *root, self worker.Record) (*root, error) {
	for found.Losses <= self.Losses {
		known := found.rootData
		known.note(self.Losses)
		_, err := r.session.Set(ctx, r.root, encode(known), found.stat.Version)
		if err == nil || isConflict(err) { // then somebody has written it, of this loss or of something else
			known.Losses = self.Losses
			found, err = r.ensureTree(ctx, known)
		}
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// newRoot is the root of a cluster that has lost nothing, and has no parent yet.
func (t tree) newRoot(layout snowflake.Layout, cluster string) rootData {
	return rootData{Cluster: cluster, Epoch: layout.Epoch, Layout: layout.String(), Forever: t.forever, LongestLease: leastLease.Milliseconds()}
}

// makeRoot makes the root, or fills one that is empty: made as somebody's parent, by hand
// perhaps.
func (t tree) makeRoot(ctx context.Context, d rootData) error {
	if err := t.ensure(ctx, append(parents(t.root), t.root)...); err != nil {
		return err
	}
	data, stat, err := t.session.Get(ctx, t.root)
	switch {
	case err != nil:
		return err
	case len(data) > 0:
		return zk.ErrNodeExists
	}
	_, err = t.session.Set(ctx, t.root, encode(d), stat.Version)
	return err
}

// ensure creates those of all that are missing, empty. It looks first: what is
// there may be below something that we may not write.
func (t tree) ensure(ctx context.Context, all ...string) error {
	for _, p := range all {
		found, _, err := t.session.Exists(ctx, p)
		if err == nil && !found {
			_, err = t.session.Create(ctx, p, nil, 0)
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}

// noCluster says to those who look after a cluster that there is none.
func (t tree) noCluster() error {
	return fmt.Errorf("%w: nothing is at %s in ZooKeeper; a cluster is made with: %s", worker.ErrNoCluster, t.root, t.cfg.command("init"))
}

// noRoot says so to a daemon that would join it.
func (r *Registry) noRoot() error {
	return fmt.Errorf("%w: nothing is at %s in ZooKeeper: a new ensemble, or one that lost its data. If daemons of this cluster run, or have data directories, start one of those: "+
		"it puts the cluster back. A new cluster is made once, with: %s", worker.ErrNoCluster, r.root, r.cfg.command("init"))
}

// unfinished tells that no parent was ever recorded, and none is there.
func (d rootData) unfinished(parent *zk.Stat) bool {
	return d.ParentCzxid == 0 && d.Losses == 0 && parent == nil
}

func (t tree) unfinished() error {
	return fmt.Errorf("%w: the root %s stands, and %s is not made yet: finish it with: %s", worker.ErrNoCluster, t.root, t.forever, t.cfg.command("init"))
}

// closed says that no worker ID is given out yet (zkreg.R7).
func (r *Registry) closed(found *root) error {
	return fmt.Errorf("%w: ZooKeeper lost data, and cluster %s gives out no worker ID before %s, by ZooKeeper's clock: daemons that had one may be away, and go on by their files until then. "+
		"Once each of them is back or gone for good: %s", worker.ErrNoCluster, found.Cluster, found.Floor, r.cfg.command("open"))
}

// command is a cluster command for the cluster of c, as an operator types it.
func (c Config) command(verb string) string {
	command := "leafd cluster " + verb + " --zk " + strings.Join(c.Servers, ",") + " --zk-root " + cmp.Or(c.Root, DefaultRoot)
	if c.ForeverPath != "" {
		command += " --zk-forever-path " + c.ForeverPath
	}
	if usual := snowflake.DefaultLayout(); verb == "init" && c.Layout != usual {
		command += fmt.Sprintf(" --layout %s --epoch %d", c.Layout, c.Layout.Epoch)
	}
	if c.Auth != nil || c.TLS != nil {
		command += " and the daemon's --zk-auth-file and --zk-tls settings"
	}
	return command
}
