package zkreg

import (
	"context"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// snapshot is what one look found.
type snapshot struct {
	conn     uint64 // what is below was read over this connection, or a later one (zkreg.R2)
	root     *root  // nil: there is none, or an empty one
	list     list
	mine     *entry     // ours, with a worker ID that IDs may have been issued under; nil for none
	claiming []entry    // ours, of a claim that was never finished
	numbered *entry     // with the worker ID of our record, whoever has it; nil for none
	temp     *temporary // of our instance; nil for none
	// since is when our entry, or that there is none, was first seen as it is, over all
	// calls of Look.
	since clock.Reading
}

// lost is root.lost of what was seen.
func (s *snapshot) lost(self worker.Record) bool {
	return len(s.claiming) == 0 && s.root.lost(self, s.numbered)
}

// Look implements worker.Registry. worker.ErrDamaged for an entry of ours, or a
// root, that can't be read.
func (r *Registry) Look(ctx context.Context, self worker.Record) (worker.Lookup, error) {
	seen, err := r.look(ctx, self)
	if err != nil {
		return worker.Lookup{}, err
	}
	switch {
	case self.Cluster != "":
	case seen.root == nil:
		return worker.Lookup{}, r.noRoot()
	case seen.root.unfinished(seen.list.stat):
		return worker.Lookup{}, r.unfinished()
	}
	peers, err := r.Peers(ctx)
	if err != nil {
		return worker.Lookup{}, err
	}
	if r.seen != nil && same(r.seen.mine, seen.mine) {
		seen.since = r.seen.since
	}
	r.seen = seen
	found := worker.Lookup{Entry: worker.Entry{WorkerID: worker.NoWorkerID}, Lost: seen.lost(self), Peers: peers, Settle: r.settleTime()}
	if seen.root != nil {
		found.Cluster = seen.root.Cluster
	}
	if seen.mine != nil {
		found.Known, found.Entry = true, seen.mine.listed()
	}
	if seen.temp != nil {
		found.LiveOwner = seen.temp.owner()
	}
	return found, nil
}

// look reads what there is of our node, as new as ZooKeeper has it.
func (r *Registry) look(ctx context.Context, self worker.Record) (*snapshot, error) {
	seen := &snapshot{}
	var err error
	if seen.conn, err = r.synced(ctx); err != nil {
		return nil, err
	}
	if seen.root, err = r.readRoot(ctx); err == nil && seen.root != nil {
		err = seen.root.check(r.paths, r.cfg.Layout, self.Cluster)
	}
	if err != nil {
		return nil, err
	}
	if seen.list, err = r.readNames(ctx); err != nil {
		return nil, err
	}
	likely, err := readAll(ctx, seen.list.where(func(name entryName) bool { // of our instance, perhaps, whatever its node was called
		return name.node == escapeNode(r.cfg.Node) || name.workerID == self.WorkerID
	}), r.readEntry)
	if err != nil {
		return nil, err
	}
	if err := seen.choose(likely, self, r.cfg.Layout.MaxWorker()); err != nil {
		return nil, err
	}
	if seen.temp, err = r.readOwnTemporary(ctx, self); err != nil {
		return nil, err
	}
	seen.since = r.cfg.Clock.Read()
	return seen, nil
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
		if e.workerID == self.WorkerID && (s.numbered == nil || e.occupied()) {
			s.numbered = e
		}
		switch {
		case e.damaged != nil && e.workerID == self.WorkerID && e.node == escapeNode(self.Node):
			return e.damaged
		case e.damaged != nil, !self.Holds(e.listed()), e.workerID > highest && e.occupied():
		case !e.occupied():
			s.claiming = append(s.claiming, *e)
		case s.mine == nil || rank(e) > rank(s.mine):
			s.mine = e
		}
	}
	return nil
}

// same tells that our entry, nil for none, is as it was before.
func same(before, now *entry) bool {
	return before == now || before != nil && now != nil && before.stat.Mzxid == now.stat.Mzxid
}
