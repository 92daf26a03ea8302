package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/server/peerclock"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// zkConfig is what the settings say about ZooKeeper.
func (c Config) zkConfig() zkreg.Config {
	return zkreg.Config{
		Servers: c.ZK, Root: c.ZKRoot, ForeverPath: c.ZKForeverPath, SessionTimeout: c.ZKSessionTimeout,
		Auth: c.ZKAuth, TLS: c.ZKTLS, Node: c.Node, Address: c.Advertise, Layout: c.Layout, ReclaimAfter: c.ReclaimAfter,
	}
}

// peers is how the other daemons are asked for their clocks: in the language that
// this one serves first, for a cluster has one mostly; over TLS alone where all have
// to show certificates.
func (c Config) peers(clk clock.Clock, certificates *server.Certificates) peerclock.Config {
	asked := peerclock.Config{Clock: clk}
	if certificates != nil {
		verify := c.clientsNeedCert(server.Public)
		asked.TLS, asked.Secure = certificates.Client(verify), peerclock.TLSFirst
		if verify {
			asked.Secure = peerclock.TLSOnly
		}
	}
	return asked
}

// errNoZooKeeper is returned by commands that look at the registry.
var errNoZooKeeper = errors.New("no ZooKeeper: set --zk (or LEAFD_ZK, or zk in the file); a standalone daemon has no registry to look at")

// openDirectory opens the registry for those who look after it. It connects in the
// background: what can't be reached is an error of the first call.
func (a *app) openDirectory(_ context.Context, cfg Config) (worker.Directory, error) {
	if len(cfg.ZK) == 0 {
		return nil, asUsage(errNoZooKeeper)
	}
	zk := cfg.zkConfig()
	zk.Clock = a.Clock
	directory, err := zkreg.OpenDirectory(zk)
	if err != nil {
		return nil, fmt.Errorf("opening the registry: %w", err)
	}
	return directory, nil
}

// startWorker claims the worker ID: from ZooKeeper, or standalone the configured one.
func (d *daemon) startWorker(ctx context.Context) (*worker.Worker, error) {
	cfg := worker.Config{
		Node: d.cfg.Node, Owner: d.owner, Home: d.home, Layout: d.cfg.Layout.String(), Epoch: d.cfg.Layout.Epoch,
		Clock: d.clk, Cache: d.cache, Registry: worker.Standalone{WorkerID: d.cfg.WorkerID},
		ReportInterval: d.cfg.ReportInterval, CeilingLead: d.cfg.CeilingLead,
		MaxForwardStep: d.cfg.MaxForwardStep, MaxWait: d.cfg.StartupTimeout,
		Threshold: d.cfg.ClockThreshold, Estimator: d.cfg.ClockEstimator, PeerInterval: d.deps.PeerInterval, ReclaimAfter: d.cfg.ReclaimAfter,
		Notify: d.monitor.worker,
	}
	if len(d.cfg.ZK) > 0 {
		peers, err := peerclock.New(d.cfg.peers(d.clk, d.certificates))
		if err != nil {
			return nil, err
		}
		cfg.Asker = peers
		zk := d.cfg.zkConfig()
		zk.Clock, zk.Settle, zk.Notify = d.clk, d.deps.Settle, d.monitor.zookeeper
		if d.registry, err = zkreg.Open(zk); err != nil {
			return nil, fmt.Errorf("opening the registry: %w", err)
		}
		cfg.Registry = d.registry
		d.metrics.SetSession(d.registry)
	}
	return worker.Start(ctx, cfg)
}

// sayIssuing logs under which identity IDs are issued from now on.
func (d *daemon) sayIssuing(w *worker.Worker) {
	r := w.Record()
	line := d.log.Info().Int64("worker_id", r.WorkerID).Str("node", r.Node).Stringer("layout", d.cfg.Layout).
		Stringer("ids_last_until", d.cfg.Layout.End())
	switch {
	case d.registry == nil:
		line.Bool("standalone", true).Msg("issuing snowflake IDs; standalone: nobody checks that no other daemon has this worker ID")
	case w.Registry() != nil:
		line.Str("cluster", r.Cluster).Msg("issuing snowflake IDs, by the local record; ZooKeeper has to confirm it yet")
	default:
		line.Str("cluster", r.Cluster).Msg("issuing snowflake IDs")
	}
}
