package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leafd/leafd/cmd/leafd/internal/doctor"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// zkConfig is what the settings say about ZooKeeper, with the clock.
func (p *patient) zkConfig() zkreg.Config {
	zk := p.cfg.zkConfig()
	zk.Clock = p.app.Clock
	return zk
}

// servers asks each server of the ensemble.
func (p *patient) servers(ctx context.Context, r *doctor.Report) {
	bounded, cancel := context.WithTimeout(ctx, p.timeout*3/4)
	defer cancel()
	states := zkreg.Servers(bounded, p.zkConfig())
	serving := slices.ContainsFunc(states, func(s zkreg.ServerState) bool { return s.Err == nil })
	for _, s := range states {
		switch {
		case s.Err != nil && serving:
			r.Warn("zookeeper", fmt.Sprintf("%s gives no session: %v", s.Server, s.Err), "start it, or take it out of --zk: a daemon that loses another server tries this one, too")
		case s.Err != nil:
			r.Fail("zookeeper", fmt.Errorf("%s gives no session: %w", s.Server, s.Err), "look at ZooKeeper, the network and --zk; a daemon with a record starts without, a new one doesn't")
		case s.Granted != p.cfg.ZKSessionTimeout:
			r.Warn("zookeeper", fmt.Sprintf("%s grants a session of %s where %s is asked for", s.Server, s.Granted, p.cfg.ZKSessionTimeout), "its tickTime, minSessionTimeout and maxSessionTimeout bound it; set --zk-session-timeout to match")
		default:
			r.OK("zookeeper", "%s gives a session of %s", s.Server, s.Granted)
		}
	}
}

// node looks at the cluster and at our entry in it, as a start would.
func (p *patient) node(ctx context.Context, r *doctor.Report) {
	self := worker.Record{Node: p.cfg.Node, WorkerID: worker.NoWorkerID, Layout: p.cfg.Layout.String(), Epoch: p.cfg.Layout.Epoch}
	if record, err := localRecord(p.cfg.DataDir); err == nil && record != nil {
		self = *record
		if record.Node != p.cfg.Node {
			self.Node, self.WorkerID = p.cfg.Node, worker.NoWorkerID
		}
	}
	bounded, cancel := context.WithTimeout(ctx, p.timeout*3/4)
	defer cancel()
	found, err := zkreg.Self(bounded, p.zkConfig(), self)
	if err != nil {
		r.Fail("zk-node", err, "")
		return
	}
	p.judgeNode(r, self, found)
	dir, err := zkreg.OpenDirectory(p.zkConfig())
	if err != nil {
		r.Fail("zk-ids", err, "")
		return
	}
	defer dir.Close() //nolint:errcheck // it has no error to tell
	list, err := listWorkers(bounded, dir, nil, p.cfg.Layout, p.app.wall)
	if err != nil {
		r.Fail("zk-ids", err, "")
		return
	}
	p.judgeLeft(r, list.summary, found.Known)
}

// judgeNode says what a start would make of found.
func (p *patient) judgeNode(r *doctor.Report, self worker.Record, found worker.Found) {
	const check = "zk-node"
	now := p.app.wall()
	ours := found.LiveOwner != "" && (found.LiveOwner == self.Owner || slices.Contains(self.Lineage, found.LiveOwner))
	switch {
	case found.LiveOwner != "" && !ours:
		r.Fail(check, fmt.Errorf("%w: a process that this data folder doesn't know is live as node %q, worker %d, at %s", worker.ErrHeld, p.cfg.Node, found.WorkerID, orDash(found.Address)),
			"stop that daemon, or give this one a --node of its own; if it has only just died, wait for --zk-session-timeout")
	case found.Known && found.Timestamp > now:
		r.Fail(check, fmt.Errorf("%w: it is %s behind the %s that worker %d recorded in ZooKeeper", worker.ErrClockRefused, found.Timestamp.Sub(now), found.Timestamp, found.WorkerID),
			"mend the clock (NTP), or wait until it has caught up")
	case found.Removed:
		r.Warn(check, fmt.Sprintf("the entry of worker %d, node %q, was removed from ZooKeeper", self.WorkerID, p.cfg.Node), "nothing, if that was meant: a start claims a worker ID anew")
	case found.Forgotten:
		r.Warn(check, fmt.Sprintf("ZooKeeper has another cluster than the record's %s: it lost its data, or --zk-root is another", self.Cluster), "see that --zk-root is right; a start puts the worker ID back")
	case found.Cluster == "":
		r.OK(check, "nothing is at %s yet: the first daemon makes it", p.cfg.ZKRoot)
	case !found.Known:
		r.OK(check, "node %q is new to cluster %s", p.cfg.Node, found.Cluster)
	case ours && p.running():
		r.OK(check, "node %q is worker %d of cluster %s, and live", p.cfg.Node, found.WorkerID, found.Cluster)
	default:
		r.OK(check, "node %q is worker %d of cluster %s, last reported %s", p.cfg.Node, found.WorkerID, found.Cluster, found.Timestamp)
	}
}

// fewLeft is how many worker IDs that are left are worth a word.
const fewLeft = 10

// judgeLeft says how many worker IDs are left for a node that is known, or new.
func (p *patient) judgeLeft(r *doctor.Report, s workerSummary, known bool) {
	const check, free = "zk-ids", "leafd worker list --state stale shows who has not reported for long, leafd worker release frees an ID"
	switch {
	case s.Left > 0 && s.Left > min(fewLeft, s.Capacity/10):
		r.OK(check, "%s", s.sentence())
	case s.Left > 0, known, p.cfg.ReclaimAfter > 0 && s.Stale > 0:
		r.Warn(check, s.sentence(), free)
	default:
		r.Fail(check, fmt.Errorf("%w for a new node: %s", worker.ErrExhausted, s.sentence()), free)
	}
}

// rights has ZooKeeper judge what a daemon writes.
func (p *patient) rights(ctx context.Context, r *doctor.Report) {
	const check = "zk-rights"
	dir, err := zkreg.OpenDirectory(p.zkConfig())
	if err != nil {
		r.Fail(check, err, "")
		return
	}
	defer dir.Close() //nolint:errcheck // it has no error to tell
	bounded, cancel := context.WithTimeout(ctx, p.timeout*3/4)
	defer cancel()
	var refused *zkreg.TrialError
	switch err := dir.Trial(bounded, p.cfg.Node); {
	case errors.As(err, &refused):
		r.Fail(check, err, "let the user of --zk-auth-file do that: setAcl in ZooKeeper's shell; deleting is a right on the parent")
	case err != nil:
		r.Fail(check, err, "")
	case p.cfg.ZKAuth == nil:
		r.OK(check, "all that a daemon writes is allowed, to everybody: there is no --zk-auth-file")
	default:
		r.OK(check, "all that a daemon writes is allowed to %s", p.cfg.ZKAuth)
	}
}

// peers compares the clock with the other daemons'.
func (p *patient) peers(ctx context.Context, r *doctor.Report) {
	const check = "peers"
	c := clockCheck{threshold: p.cfg.ClockThreshold, estimator: p.cfg.ClockEstimator}
	asker, err := p.app.asker(p.cfg)
	if err != nil {
		r.Fail(check, err, "")
		return
	}
	record, err := localRecord(p.cfg.DataDir)
	if err != nil {
		record = nil // its own check says why
	}
	if record == nil {
		record = &worker.Record{Node: p.cfg.Node}
	}
	if c.peers, err = p.app.peersToAsk(ctx, p.cfg, p.timeout/2, nil, record); err != nil {
		r.Fail(check, err, "")
		return
	}
	c.ask(ctx, asker, p.app.wall)
	switch {
	case c.refusal() != nil:
		r.Fail(check, c.refusal(), "leafd clock check shows each peer's clock")
	case len(c.peers) == 0:
		r.OK(check, "no other daemon is live")
	case c.verdict.Answered == 0:
		r.Warn(check, c.warnings()[0]+": "+c.peers[0].sample.Err.Error(), "see that the advertised addresses can be reached from here; leafd clock check shows each of them")
	default:
		r.OK(check, "the clocks of %d peers are %s this one, %d were asked", c.verdict.Answered, apart(c.verdict.Offset), c.verdict.Asked)
	}
}

// layout looks whether the clock lies within the layout's time.
func (p *patient) layout(_ context.Context, r *doctor.Report) {
	now := p.app.wall()
	left := p.cfg.Layout.End().Sub(now)
	const year = 365 * 24 * time.Hour
	switch _, _, err := p.cfg.Layout.Range(now); {
	case err != nil:
		r.Fail("layout", err, "mend the clock; if it is right, this layout can't be used")
	case left < 2*year:
		r.Warn("layout", fmt.Sprintf("%s with epoch %s ends on %s", p.cfg.Layout, p.cfg.Layout.Epoch, p.cfg.Layout.End()), "plan what comes after it: a new root, and IDs in a wider column")
	default:
		r.OK("layout", "%s lasts until %s", p.cfg.Layout, p.cfg.Layout.End().Time().Format(time.DateOnly))
	}
}
