// Package daemon puts the parts of leafd together: it starts them in order, stops them in
// the reverse order, reloads settings, reports to systemd, and turns events into log
// lines and alarms.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"

	"github.com/google/uuid"
	oklog "github.com/oklog/run"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/alarm"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/server/metrics"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// Deps is what a daemon needs beside its settings.
type Deps struct {
	Version string // of the program
	Clock   clock.Clock
	Log     zerolog.Logger
	// Reload passes on settings that change while the daemon runs; nil: none do.
	Reload *Reloader
	// Inherited are listening sockets that systemd passed, by name; nil: none.
	Inherited map[string]net.Listener
	// Notify reports to systemd, and Watchdog is how long systemd waits for a sign of
	// life; nil and 0 where there is no systemd.
	Notify   *Notifier
	Watchdog time.Duration
}

// daemon is a running leafd. It starts in the order of its fields and stops in the
// reverse order.
type daemon struct {
	cfg     settings.Config
	deps    Deps
	clk     clock.Clock
	log     zerolog.Logger
	events  *eventLog
	metrics *metrics.Metrics

	listener     net.Listener         // that of --listen
	opened       []opened             // all listeners, that one first
	certificates *server.Certificates // nil: no TLS; partsMu protects its change
	maxConns     int                  // of clients at once
	memory       Memory               // that the process may use

	server   *server.Server
	cache    *cache.Cache // nil where the data directory isn't locked
	store    *sqlstore.Store
	marks    segment.HighWater
	segments *segment.Service // partsMu protects its change
	table    *segment.Table   // as people change it

	partsMu sync.Mutex
	life    *life // partsMu protects; nil before the first life issues

	lastLife atomic.Pointer[worker.Worker] // nil before the first life issues
	started  clock.Millis
	serving  atomic.Bool // the server has a backend
	super    *supervisor
	closers  []closer
}

// closer undoes one step of the start.
type closer struct {
	name string
	fn   func(ctx context.Context) error
}

// Run serves until ctx is done, and then stops cleanly. It returns nil
// after a clean stop, and otherwise an error that cli.ExitCode knows.
func Run(ctx context.Context, cfg settings.Config, deps Deps) (err error) {
	d := &daemon{cfg: cfg, deps: deps, clk: deps.Clock, log: deps.Log, started: deps.Clock.Read().Wall()}
	d.events = &eventLog{log: d.log}
	d.super = newSupervisor(deps, d)
	defer d.super.begin(cfg)() // it ends last
	defer func() { err = errors.Join(err, d.close()) }()
	if d.deps.Reload == nil {
		d.deps.Reload = NewReloader(cfg)
	}
	for _, warning := range cfg.Warnings {
		d.log.Warn().Msg(warning)
	}
	for _, e := range cfg.Exposed() {
		d.log.Warn().Str("do", e.Do).Msg(e.Found)
	}

	// The parts below the HTTP layer outlive ctx: requests in flight when the stop
	// begins are finished.
	base, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	if err := d.listen(ctx, base); err != nil {
		return err
	}

	var actors oklog.Group
	stopping, stop := context.WithCancel(ctx)
	defer stop()
	actors.Add(func() error { <-stopping.Done(); return nil }, func(error) { stop() })
	// Interrupts run in this order, one after the other: the server has answered
	// every request before the parts that it needs are stopped.
	d.addListeners(&actors, func() { d.drain(ctx, giveUp) })
	d.add(base, &actors, func(life context.Context) error { return d.bringUp(stopping, life) })
	if err := actors.Run(); err != nil {
		return err
	}
	return nil
}

// add puts a goroutine into the group that ends with its context.
func (d *daemon) add(base context.Context, actors *oklog.Group, execute func(context.Context) error) {
	life, end := context.WithCancel(base)
	actors.Add(func() error { return execute(life) }, func(error) { end() })
}

// listen opens the listeners first: a start that has to wait answers "starting"
// meanwhile, and one without its port has touched nothing.
func (d *daemon) listen(ctx, base context.Context) error {
	registry := prometheus.NewRegistry()
	if err := d.openAlarms(ctx, registry); err != nil {
		return err
	}
	var err error
	d.memory = readMemory("")
	boundHeap(d.memory)
	if d.maxConns, err = d.connections(); err != nil {
		return err
	}
	d.server, err = server.New(server.Config{
		Base: base, Clock: d.clk, Log: d.log, Version: d.deps.Version,
		Live: d.cfg.Live(), Secure: d.cfg.Listen.TLS.Cert != "",
		Node: d.cfg.Node, ReadTimeout: d.cfg.Tuning.ReadTimeout,
		MaxInflight: d.cfg.Tuning.MaxInflight, QueueWait: d.cfg.Tuning.QueueWait,
		Registry: registry, AdminApart: d.hasAdmin(), MaxConns: d.maxConns, Memory: d.memory.Bytes, Conditions: d.events.alarms.Now, Events: d.recentEvents,
	})
	if err != nil {
		return err
	}
	d.server.SetOwner(uuid.NewString()) // until a life has its own: by it others know a leafd
	if err := d.openMetrics(registry); err != nil {
		return err
	}
	if err := errors.Join(d.deps.Reload.Join(d.prepareAlarms), d.deps.Reload.Join(d.prepareServer), d.deps.Reload.Join(d.prepareLife)); err != nil {
		return err
	}
	if err := d.openListeners(ctx); err != nil {
		return err
	}
	d.super.listening(d.listener.Addr(), d.selfTLS())
	return nil
}

// openAlarms opens the alarms before anything that may raise one; they are closed
// after all of that.
func (d *daemon) openAlarms(ctx context.Context, registry *prometheus.Registry) error {
	alarms, err := alarm.New(alarm.Config{
		Log: d.log, Registerer: registry, Clock: d.clk, Webhook: d.cfg.Alarm.Webhook,
		Ask: d.conditions, Cause: cause, Node: d.cfg.Node, Version: d.deps.Version,
	})
	if err != nil {
		return settings.AsUsage(err)
	}
	d.events.alarms = alarms
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var both sync.WaitGroup
	both.Go(func() { _ = alarms.Run(life) })
	both.Go(func() { _ = alarms.Watch(life) })
	d.onClose("the alarms", func(context.Context) error {
		end()
		both.Wait() // within the two seconds that deliveries get
		return nil
	})
	d.super.dog.add("conditions", func(context.Context) error { return alarms.Stuck() })
	return nil
}

// bringUp opens what the data directory holds, serves segments, passes the clock
// guards, serves snowflake IDs, and runs it all until life ends. start ends
// when the daemon is told to stop, which also ends the waits of a start.
func (d *daemon) bringUp(start, life context.Context) error {
	if err := d.openCache(); err != nil {
		return err
	}
	d.onClose("the data directory's lock", func(context.Context) error { return d.closeCache() })

	var actors oklog.Group
	d.add(life, &actors, func(ctx context.Context) error { <-ctx.Done(); return nil })
	if d.cfg.Segment.On {
		if err := d.openSegments(start); err != nil {
			return err
		}
		d.add(life, &actors, d.segments.Run)
		d.add(life, &actors, d.awaitRest)
		if !d.cfg.Store(true).Local() {
			d.add(life, &actors, d.inspectDatabase)
		}
	}
	d.serveBackend(nil)
	if d.cfg.Snowflake.On {
		d.add(life, &actors, func(ctx context.Context) error { return d.runWorker(start, ctx) })
	} else {
		d.super.issues(nil)
	}
	return actors.Run()
}

// changePatience is how long a change of a tag waits for ZooKeeper, within the server's time for it.
const changePatience = 2 * time.Second

func (d *daemon) openSegments(ctx context.Context) error {
	if err := d.bindSegments(); err != nil {
		return err
	}
	marks, err := sqlstore.OpenHighWater(filepath.Join(d.cfg.DataDir, settings.MarksFile))
	if err != nil {
		return err
	}
	d.onClose("the marks", func(context.Context) error { return marks.Close() })
	d.marks = marks
	kept := d.cfg.Store(true)
	d.store, err = sqlstore.Open(kept)
	if err != nil {
		return err
	}
	d.onClose("the segment store", func(context.Context) error { return d.store.Close() })
	if err := d.deps.Reload.Join(d.prepareStore); err != nil {
		return err
	}
	guard, err := d.openGuard()
	if err != nil {
		return err
	}
	if guard != nil && kept.Local() {
		d.log.Warn().Str("do", "give all daemons the same --mysql").Msg("segments come from a table of this daemon's own: none is fetched while ZooKeeper is away")
	}
	reserve := int64(0)
	if guard != nil && d.cfg.Segment.GuardRequired() {
		reserve = d.cfg.Segment.Reserve
	}
	segments, err := segment.New(segment.Config{
		Reserve: reserve,
		Store:   d.store, HighWater: d.marks, Clock: d.clk,
		Held:  d.asksZooKeeper() && d.cache.HasRest(),
		Guard: guard, Node: d.cfg.Node, OwnTable: kept.Local(), GuardRequired: d.cfg.Segment.GuardRequired(), RefuseRegressed: d.cfg.Segment.RefuseRegressed(),
		Wait: d.cfg.Tuning.SegmentWait, Refresh: d.cfg.Tuning.SegmentRefresh, Notify: d.events.segment, Fetched: d.metrics.Fetched,
	})
	if err != nil {
		return err
	}
	d.partsMu.Lock()
	d.segments = segments
	d.partsMu.Unlock()
	d.table = &segment.Table{
		Admin: d.store, Guard: guard, Patience: changePatience, Marks: d.marks, Deleted: d.segments.Deleted,
		Known: func(_ context.Context, tag string) (int64, bool, error) {
			high, err := d.segments.Known(tag)
			return high, kept.Local(), err // no other daemon uses that one
		},
	}
	d.onClose("what is left of the ranges", d.keepRest)
	if !d.asksZooKeeper() {
		d.takeRest(ctx, worker.Record{}, "")
	}
	d.super.dog.add("segments", func(context.Context) error { return d.segments.Stuck() })
	d.metrics.SetSegments(d.segments)
	return nil
}

// bindSegments refuses a local store that is a copy. With ZooKeeper the guard,
// without which no range of a local store is fetched, keeps the two apart.
func (d *daemon) bindSegments() error {
	kept := d.cfg.Store(false)
	if !kept.Local() {
		return nil
	}
	_, err := os.Lstat(kept.Path)
	err = d.cache.BindSegments(errors.Is(err, fs.ErrNotExist))
	if errors.Is(err, worker.ErrCopied) && len(d.cfg.ZooKeeper.Servers) > 0 {
		return nil
	}
	return err
}

// openGuard opens the guard of the segments in ZooKeeper; nil where there is none.
func (d *daemon) openGuard() (segment.Guard, error) {
	if len(d.cfg.ZooKeeper.Servers) == 0 {
		return nil, nil //nolint:nilnil // none is meant
	}
	guard, err := zkreg.OpenGuard(d.cfg.ZKConfig(d.clk))
	if err != nil {
		return nil, fmt.Errorf("opening the guard of the segments: %w", err)
	}
	d.onClose("the guard of the segments", func(context.Context) error { return guard.Close() })
	return guard, nil
}

// drain ends the HTTP side: not ready, requests in flight finished, connections
// closed. Requests that are not finished in time are given up.
func (d *daemon) drain(ctx context.Context, giveUp func()) {
	delay, shutdown := d.deps.Reload.current().HTTP.DrainDelay, cmp.Or(d.cfg.Tuning.Shutdown, ShutdownTimeout)
	d.server.Drain()
	d.log.Info().Dur("drain_delay_ms", delay).Msg("stopping: not ready, finishing what is in flight")
	d.super.stopping(delay + shutdown + closeTimeout + stopSlack)
	background := context.WithoutCancel(ctx)
	if d.serving.Load() { // a load balancer may have seen us ready
		_ = d.clk.Sleep(background, delay) // its context never ends
	}
	bounded, cancel := context.WithTimeout(background, shutdown)
	defer cancel()
	if err := d.server.Shutdown(bounded); err != nil {
		d.log.Warn().Err(err).Msg("requests in flight were given up")
	}
	giveUp()
}

func (d *daemon) onClose(name string, fn func(context.Context) error) {
	d.closers = append(d.closers, closer{name: name, fn: fn})
}

// ShutdownTimeout is how long requests in flight may take at a stop: as long as a client may
// take over its answer (server.DefaultWriteTimeout).
const ShutdownTimeout = server.DefaultWriteTimeout

// closeTimeout bounds what a stop may take after the last request.
const closeTimeout = 5 * time.Second

// close undoes the start, the last step first. A step that fails stops none of the
// others.
func (d *daemon) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var failed []error
	for i := len(d.closers) - 1; i >= 0; i-- {
		if err := d.closers[i].fn(ctx); err != nil {
			failed = append(failed, fmt.Errorf("closing %s: %w", d.closers[i].name, err))
		}
	}
	d.closeListeners()
	d.closers = nil
	if len(failed) == 0 {
		d.log.Info().Msg("stopped")
	}
	return errors.Join(failed...)
}
