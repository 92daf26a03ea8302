package daemon

import (
	"context"
	"fmt"

	"github.com/leafd/leafd/server/peerclock"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// startWorker claims the worker ID: from ZooKeeper, or standalone the configured one.
func (d *daemon) startWorker(ctx context.Context) (*worker.Worker, error) {
	cfg := worker.Config{
		Node: d.cfg.Node, Owner: d.owner, DirectoryID: d.directoryID, Layout: d.cfg.Snowflake.Layout.String(), Epoch: d.cfg.Snowflake.Layout.Epoch,
		Clock: d.clk, Cache: d.cache, Registry: worker.Standalone{WorkerID: d.cfg.Snowflake.WorkerID},
		ReportInterval: d.cfg.Clock.ReportInterval, CeilingLead: d.cfg.Clock.CeilingLead,
		MaxForwardStep: d.cfg.Clock.MaxForwardStep, MaxWait: d.cfg.Clock.StartupTimeout,
		Threshold: d.cfg.Clock.Threshold, Estimator: d.cfg.Clock.Estimator, PeerInterval: d.deps.PeerInterval,
		Lease: d.cfg.ZooKeeper.Lease, ReleaseOnStop: d.cfg.ZooKeeper.ReleaseOnStop,
		Notify: d.events.worker,
	}
	if len(d.cfg.ZooKeeper.Servers) > 0 {
		peers, err := peerclock.New(d.cfg.Peers(d.clk, d.certificates))
		if err != nil {
			return nil, err
		}
		cfg.Prober = peers
		zk := d.cfg.ZKConfig()
		zk.Clock, zk.Settle, zk.Notify = d.clk, d.deps.Settle, d.events.zookeeper
		if d.registry, err = zkreg.Open(zk); err != nil {
			return nil, fmt.Errorf("opening the registry: %w", err)
		}
		cfg.Registry = d.registry
		d.metrics.SetSession(d.registry)
	}
	return worker.Start(ctx, cfg)
}

// sayIssuing logs the identity under which IDs are issued from now on.
func (d *daemon) sayIssuing(w *worker.Worker) {
	r := w.Record()
	line := d.log.Info().Int64("worker_id", r.WorkerID).Str("node", r.Node).Stringer("layout", d.cfg.Snowflake.Layout).
		Stringer("ids_last_until", d.cfg.Snowflake.Layout.End())
	switch {
	case d.registry == nil:
		line.Bool("standalone", true).Msg("issuing snowflake IDs; standalone: nobody checks that no other daemon has this worker ID")
	case w.Registry() != nil:
		line.Str("cluster", r.Cluster).Msg("issuing snowflake IDs, by the local record; ZooKeeper has to confirm it yet")
	default:
		line.Str("cluster", r.Cluster).Msg("issuing snowflake IDs")
	}
}
