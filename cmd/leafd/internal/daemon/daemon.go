// Package daemon puts the parts of leafd together: it starts them in order, stops them in
// the reverse order, reloads settings, reports to systemd, and turns events into log
// lines and alarms.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/alarm"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/metrics"
	"github.com/leafd/leafd/zkreg"
)

// Deps is what a daemon needs beside its settings.
type Deps struct {
	Version string // of the program
	Clock   clock.Clock
	Log     zerolog.Logger
	// Reload passes on settings that change while the daemon runs.
	Reload *Reloader
	// Inherited are listening sockets that systemd passed, by name; nil: none.
	Inherited map[string]net.Listener
	// Notify reports to systemd.
	Notify *Notifier
	// Outside has what the daemon opens.
	Outside Outside
}

// daemon is a running leafd. It starts in the order of its fields and stops in the
// reverse order.
type daemon struct {
	Deps

	cfg     settings.Config
	started clock.Millis
	waits   atomic.Pointer[error] // what a start waits for

	certificates *conn.Certificates // nil: no TLS
	alarms       *alarm.Alarms
	maxConns     int // of clients at once
	server       *server.Server
	metrics      *metrics.Metrics
	opened       []opened // all listeners, that of --listen first

	cache    Directory                       // nil where the data directory isn't locked
	segments atomic.Pointer[segment.Service] // nil until it is there
	table    *segment.Table                  // as people change it
	life     atomic.Pointer[life]            // nil before the first life issues
	registry atomic.Pointer[zkreg.Registry]  // the last life's, from its start on; nil for none

	serving atomic.Bool                             // the server has a backend
	closers []func(ctx context.Context) (err error) // each undoes one step of the start
}

// Run serves until ctx is done, and then stops cleanly. It returns nil
// after a clean stop, and otherwise an error that cli.ExitCode knows.
func Run(ctx context.Context, cfg settings.Config, deps Deps) (err error) {
	deps.Outside.complete()
	d := &daemon{Deps: deps, cfg: cfg, started: deps.Clock.Read().Wall()}
	d.noteWait(nil)
	defer func() { err = errors.Join(err, d.close()) }()
	for _, warning := range cfg.Warnings {
		d.Log.Warn().Msg(warning)
	}
	if slices.Contains(cfg.Modes, "segment") && !cfg.Segment.On {
		d.Log.Warn().Str("do", "name the database that the cluster's daemons share with --mysql").Msg("with zk and without mysql there are no segment IDs: they are answered with 404 mode_disabled")
	}
	for _, e := range cfg.Exposed() {
		d.Log.Warn().Str("do", e.Do).Msg(e.Found)
	}

	// The parts below the HTTP layer outlive ctx: requests in flight when the stop
	// begins are finished.
	base, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	if err := d.listen(ctx, base); err != nil {
		return err
	}

	parts, stopping := errgroup.WithContext(ctx)
	for _, ln := range d.opened {
		parts.Go(func() error {
			if d.Inherited[ln.surface.String()] != nil {
				d.hold(stopping)
			}
			return d.server.Serve(ln.Listener, ln.surface)
		})
	}
	parts.Go(func() error { return d.bringUp(stopping, base) })
	parts.Go(func() error {
		<-stopping.Done()
		d.drain(ctx)
		giveUp() // the server has answered every request before the parts that it needs are stopped
		return nil
	})
	return parts.Wait()
}

// listen opens the listeners first: a start that has to wait answers "starting"
// meanwhile, and one without its port has touched nothing.
func (d *daemon) listen(ctx, base context.Context) (err error) {
	if d.cfg.Listen.TLS.Cert != "" {
		if d.certificates, err = conn.OpenCertificates(d.cfg.Listen.TLS, 0, d.certificateLoaded); err != nil {
			return settings.AsUsage(err)
		}
		d.beside("the certificates", d.certificates.Run)
		d.Reload.Join("certificates", func(settings.Config) { d.certificates.Look() })
	}
	registry := prometheus.NewRegistry()
	d.alarms = alarm.New(alarm.Config{Log: d.Log, Registerer: registry, Clock: d.Clock, Ask: d.conditions, Node: d.cfg.Node, Version: d.Version})
	d.Reload.Join("alarms", func(cfg settings.Config) { d.alarms.SetWebhook(cfg.WebhookURL) })
	// They are closed after all that may raise one, with two seconds for deliveries.
	d.beside("the alarms", d.alarms.Run, d.watchSession)
	memory := boundMemory()
	if d.maxConns, err = d.connections(memory); err != nil {
		return err
	}
	var cfg server.Config
	cfg.Base, cfg.Clock, cfg.Log, cfg.Registry, cfg.Version = base, d.Clock, d.Log, registry, d.Version
	cfg.Live, cfg.Node, cfg.Secure = d.cfg.Live(), d.cfg.Node, d.certificates != nil
	cfg.MaxConns, cfg.Memory, cfg.ReadTimeout = d.maxConns, memory, d.cfg.Tuning.ReadTimeout
	cfg.MaxInflight, cfg.QueueWait = d.cfg.Tuning.MaxInflight, d.cfg.Tuning.QueueWait
	cfg.AdminApart = d.cfg.Listen.Admin != "" || d.Inherited[conn.Admin.String()] != nil
	cfg.Conditions, cfg.Events = d.alarms.Now, d.alarms.Events
	if d.server, err = server.New(cfg); err != nil {
		return err
	}
	d.server.SetOwner(uuid.NewString()) // until a life has its own: by it others know a leafd
	// Most metrics have values once the part that they measure has started.
	measured := metrics.Config{Registerer: registry, Clock: d.Clock, Ready: d.isReady}
	if d.cfg.Snowflake.On {
		measured.States = condition.WorkerStates()
	}
	if d.metrics, err = metrics.New(measured); err != nil {
		return err
	}
	d.Reload.Join("server", func(cfg settings.Config) { d.server.SetLive(cfg.Live()) })
	if err := d.openListeners(ctx); err != nil {
		return err
	}
	d.supervise()
	return nil
}

// beside runs loops until the daemon has come down to where they began.
func (d *daemon) beside(name string, loops ...func(context.Context) error) {
	var all errgroup.Group
	ctx, end := context.WithCancel(context.Background())
	for _, loop := range loops {
		all.Go(func() error { return loop(ctx) })
	}
	d.onClose(name, func(context.Context) error {
		end()
		return all.Wait()
	})
}

// bringUp opens what the data directory holds, serves segments, passes the clock
// guards, serves snowflake IDs, and runs it all until life ends. start ends
// when the daemon is told to stop, which also ends the waits of a start.
func (d *daemon) bringUp(start, life context.Context) (err error) {
	if d.cache, err = d.Outside.Directory(d.cfg.DataDir); err != nil {
		return err
	}
	d.onClose("the data directory's lock", func(context.Context) error { return d.closeCache() })
	parts, life := errgroup.WithContext(life)
	if d.cfg.Segment.On {
		segments, err := d.openSegments(start)
		if err != nil {
			return err
		}
		parts.Go(func() error { return segments.Run(life) })
		if !d.cfg.Store(true).Local() {
			parts.Go(func() error { return d.inspectDatabase(life) })
		}
	}
	d.serveBackend(nil)
	if d.cfg.Snowflake.On {
		parts.Go(func() error { return d.runWorker(start, life) })
	} else {
		d.issues()
	}
	return parts.Wait()
}

// drain ends the HTTP side: not ready, requests in flight finished, connections
// closed. Requests that are not finished in time are given up.
func (d *daemon) drain(ctx context.Context) {
	delay, shutdown := d.Reload.current().HTTP.DrainDelay, cmp.Or(d.cfg.Tuning.Shutdown, ShutdownTimeout)
	d.server.Drain()
	d.Log.Info().Dur("drain_delay_ms", delay).Msg("stopping: not ready, finishing what is in flight")
	d.Notify.stop(delay + shutdown + closeTimeout + stopSlack)
	d.Notify.tellStatus(d.statusLine())
	background := context.WithoutCancel(ctx)
	if d.serving.Load() { // a load balancer may have seen us ready
		_ = d.Clock.Sleep(background, delay) // its context never ends
	}
	bounded, cancel := context.WithTimeout(background, shutdown)
	defer cancel()
	if err := d.server.Shutdown(bounded); err != nil {
		d.Log.Warn().Err(err).Msg("requests in flight were given up")
	}
}

// ShutdownTimeout is how long requests in flight may take at a stop: as long as a client may
// take over its answer (server.DefaultWriteTimeout).
const ShutdownTimeout = server.DefaultWriteTimeout

// closeTimeout bounds what a stop may take after the last request.
const closeTimeout = 5 * time.Second

func (d *daemon) onClose(name string, fn func(context.Context) error) {
	d.closers = append(d.closers, func(ctx context.Context) error {
		if err := fn(ctx); err != nil {
			return fmt.Errorf("closing %s: %w", name, err)
		}
		return nil
	})
}

// close undoes the start, the last step first. A step that fails stops none of the
// others.
func (d *daemon) close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, undo := range slices.Backward(d.closers) {
		err = errors.Join(err, undo(ctx))
	}
	for _, ln := range d.opened {
		_ = ln.Close() // the server has closed it where it came to serve
	}
	if err == nil {
		d.Log.Info().Msg("stopped")
	}
	return err
}
