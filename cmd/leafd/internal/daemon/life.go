package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/ids/lend"
	"github.com/leafd/leafd/server/metrics"
	"github.com/leafd/leafd/server/peerclock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// life is this daemon under one owner, from the claim of a worker ID on: until the process
// stops, or until the life is displaced (worker.ErrFenced). Then the process begins another
// one, and serves segments meanwhile. It keeps:
//
//  1. A life that was displaced issues nothing and writes nothing any more. The
//     next one reads the data directory only once every write of it has ended, in the
//     file and in ZooKeeper.
//  2. The data directory stays locked from one life to the next. Where the lock is
//     what was lost, the next life begins with locking it again.
//  3. A life after a displaced one asks the registry for its worker ID (confirmed-record).
//  4. Two copies of one directory that displace each other do so ever more
//     slowly: each life waits twice as long as the one before, up to mostPause, until one
//     lasts for longLife. So does each try to begin one.
//  5. No life follows one that met another cluster, layout, epoch or path of the
//     entries (worker.ErrForeign): fenced for good.
//  6. Only the first life's start ends the process when it fails.
type life struct {
	d        *daemon
	owner    string            // UUID
	registry *zkreg.Registry   // nil: standalone
	pages    *peerclock.Client // asks the peers for the page, so that their clocks need not wait for that
	worker   *worker.Worker
	ids      *snowflake.Generator
	slices   *ids.Slices // nil: the cluster lends nothing
	// refused is why the life after this one could not begin when it was tried last.
	refused atomic.Pointer[error]
}

// Pauses before a life that follows a displaced one.
const (
	leastPause = time.Second
	mostPause  = 30 * time.Second
	longLife   = 2 * time.Minute
)

// runWorker claims the worker ID, which may have to wait for the clock, and
// issues snowflake IDs until ctx is done, in one life after the other.
func (d *daemon) runWorker(start, ctx context.Context) error {
	l, err := d.beginLife(start, nil, nil)
	if err != nil {
		if start.Err() != nil { // err may be what the claim waited for
			return nil //nolint:nilerr // stopped while it waited: nothing was issued
		}
		for _, c := range condition.Unfit(fmt.Errorf("leafd does not start: %w", err)) {
			d.tell(c)
		}
		return err
	}
	// The last ID is known only once none can follow it, so the generator
	// stops before the last report, regardless of what else is still going on.
	d.onClose("the last report", func(ctx context.Context) error {
		last := d.life.Load()
		return last.worker.Close(ctx, last.ids.Stop())
	})
	for pause := leastPause; l != nil; {
		began := d.Clock.Mono()
		why := l.serve(ctx)
		if !errors.Is(why, worker.ErrFenced) {
			return why
		}
		if d.Clock.Mono()-began >= longLife {
			pause = leastPause
		}
		l, pause = d.succeed(start, l, why, pause)
	}
	<-ctx.Done()
	return nil
}

// beginLife locks the data directory where that isn't locked any more, and claims a worker ID for a
// new life. displaced is why the one before was fenced, and why what the last try, or that one, has
// ended with; both are nil for the first.
func (d *daemon) beginLife(ctx context.Context, why, displaced error) (*life, error) {
	if errors.Is(why, worker.ErrLocked) {
		if err := d.closeCache(); err != nil {
			return nil, err
		}
	}
	if d.cache == nil {
		var err error
		if d.cache, err = d.Outside.Directory(d.cfg.DataDir); err != nil {
			return nil, err
		}
	}
	l := &life{d: d, owner: uuid.NewString()}
	d.server.SetOwner(l.owner)
	cfg, err := l.config()
	if err != nil {
		return nil, err
	}
	cfg.Displaced = displaced
	if l.worker, err = worker.Start(ctx, cfg); err != nil {
		return nil, err
	}
	l.slices = l.lends()
	l.ids, err = snowflake.New(snowflake.Config{
		Layout: d.cfg.Snowflake.Layout, Datacenter: d.cfg.Snowflake.Datacenter, Worker: l.worker.ID(), Clock: d.Clock, Half: l.slices != nil,
		Fence: l.worker, Floor: l.worker.Floor(), Ahead: d.cfg.Snowflake.Ahead, Jitter: int(min(snowflake.DefaultJitter, d.cfg.Snowflake.Layout.MaxSequence()+1)),
	})
	if err != nil {
		return nil, errors.Join(err, l.worker.Close(ctx, l.worker.Floor()-1))
	}
	return l, nil
}

// lends returns what the life lends; nil in a cluster that doesn't (lower-half), and standalone.
func (l *life) lends() *ids.Slices {
	r, cfg := l.worker.Record(), l.d.cfg.Snowflake
	if r.LongestLend == 0 {
		return nil
	}
	s := &ids.Slices{Worker: r.WorkerID, Datacenter: cfg.Datacenter, At: l.worker.LendAt}
	if longest := min(cfg.Lend, r.LongestLend); longest > 0 { // longest-lend: without ZooKeeper the record alone tells
		s.Table = lend.New(cfg.Layout.MaxSequence()+1, l.worker.LendsFrom(), longest)
	}
	return s
}

// config returns what the life's worker needs: its ID is ZooKeeper's, or standalone the
// configured one.
func (l *life) config() (worker.Config, error) {
	d := l.d
	directoryID, err := d.cache.DirectoryID()
	if err != nil {
		return worker.Config{}, err
	}
	cfg := worker.Config{
		Node: d.cfg.Node, Owner: l.owner, DirectoryID: directoryID, Layout: d.cfg.Snowflake.Layout.String(), Epoch: d.cfg.Snowflake.Layout.Epoch,
		LayoutEnd: d.cfg.Snowflake.Layout.End(), BootID: cmp.Or(d.cfg.Tuning.BootID, clock.BootID()), Clock: d.Clock, Cache: d.cache, WorkerID: d.cfg.Snowflake.WorkerID,
		ReportInterval: d.cfg.Tuning.ReportInterval, CeilingLead: d.cfg.Tuning.CeilingLead,
		MaxForwardStep: d.cfg.Tuning.MaxForwardStep, MaxWait: d.cfg.Clock.StartupTimeout,
		Threshold: d.Reload.current().Clock.Threshold, Estimator: d.cfg.Clock.Estimator, PeerInterval: d.cfg.Tuning.PeerInterval,
		Lease: d.cfg.ZooKeeper.Lease, Settle: d.cfg.Tuning.Settle, ReleaseOnStop: d.cfg.ZooKeeper.ReleaseOnStop, MaxAhead: d.cfg.Snowflake.Ahead,
		Notify: d.workerEvent,
	}
	if len(d.cfg.ZooKeeper.Servers) == 0 {
		return cfg, nil
	}
	asked := d.cfg.Peers(d.Clock, d.certificates)
	asked.Dial = d.Outside.Dial
	asked.Parallel = peerclock.DefaultParallel - pageParallel // ReservedFiles has room for both
	if cfg.Prober, err = peerclock.New(asked); err != nil {
		return cfg, err
	}
	asked.Parallel = pageParallel
	if l.pages, err = peerclock.New(asked); err != nil {
		return cfg, err
	}
	zk := d.zooKeeper()
	cfg.Root, cfg.Forever = zk.Places()
	cfg.Servers = zk.Servers
	if l.registry, err = zkreg.Open(zk); err != nil {
		return cfg, fmt.Errorf("opening the registry: %w", err)
	}
	cfg.Registry = l.registry
	d.registry.Store(l.registry)
	d.metrics.SetSession(l.registry)
	return cfg, nil
}

// zooKeeper is where the daemon's sessions lead.
func (d *daemon) zooKeeper() zkreg.Config {
	zk := d.cfg.ZKConfig(d.Clock)
	zk.Dial = d.Outside.Session
	return zk
}

// serve issues under this life until ctx is done; worker.ErrFenced once it is displaced.
func (l *life) serve(ctx context.Context) error {
	d := l.d
	d.life.Store(l)
	d.serveBackend(l)
	d.metrics.SetSnowflake(metrics.Snowflake{Worker: l.worker, Generator: l.ids, Layout: d.cfg.Snowflake.Layout, State: d.workerState})
	l.sayIssuing()
	d.issues()
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return l.worker.Run(ctx) })
	parts.Go(func() error { return l.worker.Watch(ctx, l.ids) })
	return parts.Wait()
}

// succeed begins the life after l, which was displaced for the reason why. It tries until
// one issues, and returns the pause before the one that follows it; nil where ctx is done first, or
// none may follow. l refuses requests meanwhile.
func (d *daemon) succeed(ctx context.Context, l *life, why error, pause time.Duration) (*life, time.Duration) {
	d.serveBackend(l)
	_ = l.worker.Close(ctx, l.worker.Floor()) // it returns why
	for displaced := why; !errors.Is(why, worker.ErrForeign); {
		d.Log.Warn().Dur("pause_ms", pause).Msg("a new life begins after a pause, and gets another worker ID where the old one is lost")
		if d.Clock.Sleep(ctx, pause) != nil {
			return nil, 0
		}
		pause = min(2*pause, mostPause)
		next, err := d.beginLife(ctx, why, displaced)
		if err == nil {
			return next, pause
		}
		if ctx.Err() != nil {
			return nil, 0
		}
		why = err
		l.refused.Store(&err)
		d.Log.Warn().Err(err).Msg("no new life begins")
	}
	why = fmt.Errorf("%w: %w", condition.ErrFencedForGood, why)
	l.refused.Store(&why)
	return nil, 0
}

// closeCache gives the data directory up.
func (d *daemon) closeCache() error {
	if d.cache == nil {
		return nil
	}
	lost := d.cache
	d.cache = nil
	return lost.Close()
}

// sayIssuing logs the identity under which IDs are issued from now on.
func (l *life) sayIssuing() {
	r, how := l.worker.Record(), ""
	switch {
	case l.registry == nil:
		how = "; standalone: nothing checks that no other daemon has this worker ID"
	case l.worker.Registry() != nil:
		how = ", by the local record; ZooKeeper has not confirmed it yet"
	}
	l.d.Log.Info().Int64("worker_id", r.WorkerID).Str("node", r.Node).Str("cluster", r.Cluster).Stringer("layout", l.d.cfg.Snowflake.Layout).
		Stringer("ids_last_until", l.d.cfg.Snowflake.Layout.End()).Msg("issuing snowflake IDs" + how)
}
