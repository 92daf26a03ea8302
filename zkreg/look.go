package zkreg

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// snapshot is what one look found.
type snapshot struct {
	root     *root // nil: there is none, or an empty one
	list     list
	mine     *entry     // ours, with a worker ID that IDs may have been issued under; nil for none
	claiming []entry    // ours, of a claim that was never finished
	temp     *temporary // of our instance; nil for none
	at       clock.Reading
}

// cluster returns the ID of the cluster; empty when there is none yet.
func (s *snapshot) cluster() string {
	if s.root == nil {
		return ""
	}
	return s.root.Cluster
}

// dataLost tells that the registry lost its data since self was recorded.
func (s *snapshot) dataLost(self worker.Record) bool {
	return s.mine == nil && self.Cluster != "" && (s.cluster() != self.Cluster || s.root.Losses != self.Losses || !s.root.open(s.list.stat))
}

// admits returns worker.ErrNoCluster where self can only wait for others to make the
// cluster, or to put it back (zkreg.R5).
func (r *Registry) admits(s *snapshot, self worker.Record) error {
	switch {
	case s.root == nil && self.Cluster == "":
		return r.noRoot()
	case s.root != nil && s.root.Cluster != self.Cluster && !s.root.open(s.list.stat):
		return r.noParent(s.root, s.list.stat)
	default:
		return nil
	}
}

// Look implements worker.Registry. worker.ErrDamaged for an entry of ours, or a
// root, that can't be read.
func (r *Registry) Look(ctx context.Context, self worker.Record) (worker.Lookup, error) {
	seen, err := r.look(ctx, self)
	if err != nil {
		return worker.Lookup{}, err
	}
	if err := r.admits(seen, self); err != nil {
		return worker.Lookup{}, err
	}
	peers, err := r.Peers(ctx)
	if err != nil {
		return worker.Lookup{}, err
	}
	r.watch.saw(seen)
	r.seen = seen
	found := worker.Lookup{
		Cluster:  seen.cluster(),
		WorkerID: worker.NoWorkerID,
		DataLost: seen.dataLost(self),
		Removed:  seen.mine == nil && self.WorkerID >= 0 && self.Cluster != "" && !seen.dataLost(self),
		Peers:    peers,
	}
	if seen.mine != nil {
		found.Known = true
		found.WorkerID = seen.mine.workerID
		found.Timestamp = seen.mine.data.Timestamp
		found.Ceiling = seen.mine.data.Ceiling
		found.Owner = seen.mine.data.Owner
		found.Address = seen.mine.data.address()
	}
	if seen.temp != nil {
		found.LiveOwner = seen.temp.owner()
	}
	return found, nil
}

// look reads what there is of our node, as new as ZooKeeper has it: our own
// last writes too, whose answers may be lost (zkreg.R3).
func (r *Registry) look(ctx context.Context, self worker.Record) (*snapshot, error) {
	if err := r.session.Sync(ctx, r.root); err != nil {
		return nil, err
	}
	seen := &snapshot{}
	var err error
	if seen.root, err = r.readRoot(ctx); err != nil {
		return nil, err
	}
	if seen.root != nil && seen.root.Cluster == "" {
		seen.root = nil
	}
	if seen.root != nil {
		if err := seen.root.check(r.paths, r.cfg.Layout); err != nil {
			return nil, err
		}
	}
	if seen.list, err = r.readNames(ctx); err != nil {
		return nil, err
	}
	likely, err := r.readEntries(ctx, r.likelyNames(seen.list, self))
	if err != nil {
		return nil, err
	}
	if err := seen.choose(likely, self, r.cfg.Layout.MaxWorker()); err != nil {
		return nil, err
	}
	if seen.temp, err = r.readOwnTemporary(ctx, self); err != nil {
		return nil, err
	}
	seen.at = r.cfg.Clock.Read()
	return seen, nil
}

// likelyNames returns the names of the entries that may be our instance's: those of our
// node, and those with the worker ID that our record has, whatever the node was called.
func (r *Registry) likelyNames(l list, self worker.Record) []entryName {
	var likely []entryName
	node := escapeNode(r.cfg.Node)
	for _, name := range l.names {
		if name.node == node || name.workerID == self.WorkerID {
			likely = append(likely, name)
		}
	}
	return likely
}

// choose picks our entry of those that self's instance holds: the one that our own record
// has, else the lowest active one, else the lowest released one. Those beyond the
// layout are nobody's: nothing can have been issued under them. One that can't be read,
// with our node's name and the worker ID of our record, may be ours (zkreg.R4).
func (s *snapshot) choose(likely []entry, self worker.Record, highest int64) error {
	rank := func(e *entry) int {
		switch {
		case e.workerID == self.WorkerID:
			return 3
		case e.data.State == worker.StateActive:
			return 2
		default:
			return 1
		}
	}
	for i := range likely {
		e := &likely[i]
		switch {
		case e.damaged != nil && e.workerID == self.WorkerID && e.node == escapeNode(self.Node):
			return e.damaged
		case e.damaged != nil, !self.Holds(e.listed(liveSet{})), e.workerID > highest && e.occupied():
		case !e.occupied():
			s.claiming = append(s.claiming, *e)
		case s.mine == nil || rank(e) > rank(s.mine):
			s.mine = e
		}
	}
	return nil
}

// watch is for how long, and over how many looks, things did not change.
type watch struct {
	began      bool
	entry      changeID
	entrySince clock.Reading // since when our entry (or that there is none) stands
	temp       int64         // czxid of the ephemeral node of our name; 0 for none
	tempSince  time.Duration // monotonic time of when we first saw it
}

// changeID tells a state of a node from every other.
type changeID struct {
	czxid   int64
	version int32
}

func idOf(stat *zk.Stat) changeID { return changeID{stat.Czxid, stat.Version} }

func (w *watch) saw(s *snapshot) {
	var entry changeID
	if s.mine != nil {
		entry = idOf(s.mine.stat)
	}
	if !w.began || entry != w.entry {
		w.began, w.entry, w.entrySince = true, entry, s.at
	}
	w.sawTemporary(s.temp, s.at.Mono)
}

func (w *watch) sawTemporary(t *temporary, now time.Duration) {
	switch {
	case t == nil:
		w.temp = 0
	case t.stat.Czxid != w.temp:
		w.temp, w.tempSince = t.stat.Czxid, now
	}
}

// unknownOwner stands for the owner of an ephemeral node that can't be read.
const unknownOwner = "unknown"

func (t *temporary) owner() string {
	if t.damaged != nil || t.data.Owner == "" {
		return unknownOwner
	}
	return t.data.Owner
}
