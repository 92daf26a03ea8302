package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// grants asks one server for a session of its own, and returns for how long it is. A server without a
// quorum gives none.
func grants(ctx context.Context, cfg zkreg.Config, server string) (time.Duration, error) {
	cfg.Servers = []string{server}
	dir, err := zkreg.OpenDirectory(cfg)
	if err != nil {
		return 0, err
	}
	defer dir.Close()                                                           //nolint:errcheck // it has no error to tell
	if _, err = dir.Live(ctx); err != nil && !errors.Is(err, zkreg.ErrDenied) { // an answer is one
		return 0, err
	}
	return dir.Session().Timeout, nil
}

// servers asks each server of the ensemble, all at once.
func (p *Patient) servers(ctx context.Context, r *report) {
	bounded, cancel := context.WithTimeout(ctx, p.Timeout*3/4)
	defer cancel()
	cfg := p.Cfg.ZKConfig(p.Clock)
	granted, failed := make([]time.Duration, len(cfg.Servers)), make([]error, len(cfg.Servers))
	var asking sync.WaitGroup
	for i, server := range cfg.Servers {
		asking.Go(func() { granted[i], failed[i] = grants(bounded, cfg, server) })
	}
	asking.Wait()
	var silent []string
	for i, server := range cfg.Servers {
		if failed[i] != nil {
			silent = append(silent, fmt.Sprintf("%s gives no session: %v", server, failed[i]))
		}
	}
	if len(silent) == len(cfg.Servers) {
		const look = "look at ZooKeeper, the network and --zk; "
		switch err := inspect.Reword(worker.ErrUnreachable, strings.Join(silent, "; ")); {
		case p.Cfg.Snowflake.On:
			r.Fail("zookeeper", err, look+"a daemon with a record starts without, a new one doesn't")
		case p.Cfg.GuardRequired():
			r.Fail("zookeeper", err, look+"--segment-guard is require, as always without --mysql: no segment is fetched without")
		default:
			r.Warn("zookeeper", err.Error(), look+"segments are fetched all the same, and nothing guards them where the database loses commits")
		}
		return
	}
	for _, one := range silent {
		r.Warn("zookeeper", one, "start it, or take it out of --zk: a daemon that loses another server tries this one, too")
	}
	for i, server := range cfg.Servers {
		switch {
		case failed[i] != nil:
		case granted[i] != p.Cfg.ZooKeeper.SessionTimeout:
			r.Warn("zookeeper", fmt.Sprintf("%s grants a session of %s where %s is asked for", server, granted[i], p.Cfg.ZooKeeper.SessionTimeout), "its tickTime, minSessionTimeout and maxSessionTimeout bound it; set --zk-session-timeout to match")
		default:
			r.OK("zookeeper", "%s gives a session of %s", server, granted[i])
		}
	}
}

// node reads the cluster and our entry in it, as a start does.
func (p *Patient) node(ctx context.Context, r *report) {
	self := worker.Record{Node: p.Cfg.Node, WorkerID: worker.NoWorkerID, Layout: p.Cfg.Snowflake.Layout.String(), Epoch: p.Cfg.Snowflake.Layout.Epoch}
	if record, err := cache.Peek(p.Cfg.DataDir); err == nil {
		self = record
	}
	registry, err := zkreg.Open(p.Cfg.ZKConfig(p.Clock))
	if err != nil {
		r.Fail("zk-node", err, "")
		return
	}
	defer registry.Close()                 //nolint:errcheck // it has no error to tell
	found, err := registry.Look(ctx, self) // which writes nothing
	if err != nil {
		r.Fail("zk-node", err, "")
		return
	}
	known := p.judgeNode(r, self, found, registry.FixRoot(ctx, found, self, worker.Await))
	list, err := inspect.ListWorkers(ctx, registry, p.Cfg.Snowflake.Layout, p.wall)
	if err != nil {
		r.Fail("zk-ids", err, "")
		return
	}
	p.judgeLeft(r, list.Summary, known)
}

// judgeNode records what a start would do about what was found; wait is what one says that waits
// for a cluster. It returns whether this data directory has a worker ID there.
func (p *Patient) judgeNode(r *report, self worker.Record, found worker.Snapshot, wait error) (known bool) {
	const check = "zk-node"
	now, e := p.wall(), found.Entry
	known = e != nil && self.Holds(*e)
	verdict, words := inspect.Judge(self, p.Cfg.ZKConfig(p.Clock), found, worker.Moment{Clock: now, Margin: 2 * p.Cfg.Clock.Threshold, Running: p.running()})
	words = fmt.Sprintf("worker %d of node %q: %s", self.WorkerID, p.Cfg.Node, words)
	switch {
	case verdict == inspect.Copied:
		r.Fail(check, fmt.Errorf("%w: %s", worker.ErrCopied, words), "start with an empty --data-dir; a start on this one sets its record aside")
	case known && e.Timestamp > now.Add(p.Cfg.Snowflake.Ahead):
		r.Fail(check, fmt.Errorf("%w: it is %s behind the %s that worker %d recorded in ZooKeeper", worker.ErrClockRefused, e.Timestamp.Sub(now), e.Timestamp, e.WorkerID),
			"fix the clock (NTP), or wait until it has caught up")
	case verdict == inspect.NoCluster:
		r.Fail(check, wait, "")
	case verdict == inspect.OtherCluster:
		r.Fail(check, fmt.Errorf("%w: %s", worker.ErrForeign, words), "lead the daemon to its own root, or take another data directory")
	case verdict == inspect.Lost, verdict == inspect.Taken:
		r.Warn(check, words, "check --zk-root; if it is right and this was intended, do nothing")
	case verdict == inspect.NoWorkerID:
		r.OK(check, "this data directory is new to cluster %s: a start gets a worker ID", found.Root.Cluster)
	default:
		r.OK(check, "%s", words)
	}
	return known
}

// fewLeft free worker IDs, or fewer, are worth a warning.
const fewLeft = 10

// judgeLeft says how many worker IDs are left for an instance that is known, or new.
func (p *Patient) judgeLeft(r *report, s inspect.Summary, known bool) {
	const check, free = "zk-ids", "leafd worker list shows the holders of the others, and when each comes back; leafd worker release --force frees that of a host that is gone for good"
	switch {
	case s.NoRoot:
		r.Warn(check, s.Sentence(), "see zk-node")
	case s.ClosedUntil > 0:
		r.Warn(check, s.Sentence(), "start every daemon that had a worker ID; leafd cluster open --help says what ends it sooner")
	case s.Free > 0 && s.Free > min(fewLeft, s.Capacity/10):
		r.OK(check, "%s", s.Sentence())
	case s.Free > 0, known:
		r.Warn(check, s.Sentence(), free)
	default:
		r.Fail(check, fmt.Errorf("%w for a new node: %s", worker.ErrExhausted, s.Sentence()), free)
	}
}

// rights tries whether ZooKeeper allows what a daemon writes.
func (p *Patient) rights(ctx context.Context, r *report) {
	const check = "zk-rights"
	workerID := int64(worker.NoWorkerID)
	if record, err := inspect.LocalRecord(p.Cfg.DataDir); err == nil && record.Cluster != "" {
		workerID = record.WorkerID
	}
	err := p.cluster(p.Timeout).WithDirectory(ctx, func(ctx context.Context, dir *zkreg.Directory) error { return dir.Trial(ctx, workerID) })
	switch {
	case errors.Is(err, zkreg.ErrDenied):
		r.Fail(check, err, "let the user of --zk-auth-file do that: setAcl in ZooKeeper's shell; deleting is a right on the parent")
	case err != nil:
		r.Fail(check, err, "")
	case p.Cfg.ZooKeeper.Auth == nil:
		r.OK(check, "all that a daemon writes is allowed, to all: there is no --zk-auth-file")
	default:
		r.OK(check, "all that a daemon writes is allowed, asked %s", p.Cfg.ZooKeeper.Auth)
	}
}

// peers compares the clock with the other daemons'.
func (p *Patient) peers(ctx context.Context, r *report) {
	const check = "peers"
	record, _ := inspect.LocalRecord(p.Cfg.DataDir) // its own check says what is wrong with it
	const see = "leafd clock check shows each peer's clock"
	switch c, err := p.cluster(p.Timeout/2).CheckClock(ctx, nil, record); {
	case err != nil:
		r.Fail(check, err, "")
	case c.Refusal != nil:
		r.Fail(check, c.Refusal, see)
	case c.Asked == 0:
		r.OK(check, "no other daemon is live")
	case c.Warning != "":
		r.Warn(check, c.Warning, "see that the advertised addresses can be reached from here; "+see)
	default:
		r.OK(check, "this clock is %s", c.Said)
	}
}

// layout checks that the clock lies within the layout's time.
func (p *Patient) layout(_ context.Context, r *report) {
	now := p.wall()
	left := p.Cfg.Snowflake.Layout.End().Sub(now)
	const year = 365 * 24 * time.Hour
	switch _, _, err := p.Cfg.Snowflake.Layout.Range(now); {
	case err != nil:
		r.Fail("layout", err, "fix the clock; if it is right, this layout can't be used")
	case left < 2*year:
		r.Warn("layout", fmt.Sprintf("%s with epoch %s ends on %s", p.Cfg.Snowflake.Layout, p.Cfg.Snowflake.Layout.Epoch, p.Cfg.Snowflake.Layout.End()), "plan what comes after it: a new root, and IDs in a wider column")
	default:
		r.OK("layout", "%s lasts until %s", p.Cfg.Snowflake.Layout, p.Cfg.Snowflake.Layout.End().Time().Format(time.DateOnly))
	}
}
