package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/leafd/leafd/server/metrics"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// openMetrics registers what the daemon tells Prometheus beside what server and
// alarm do. Most of it is told once it is there.
func (d *daemon) openMetrics(registry *prometheus.Registry) error {
	cfg := metrics.Config{Registerer: registry, Clock: d.clk, Ready: d.server.Ready}
	if d.cfg.Snowflake {
		cfg.States = []string{stateStarting, stateActive, stateNotReady, stateNotIssuing, stateFenced}
	}
	var err error
	d.metrics, err = metrics.New(cfg)
	return err
}

// measureWorker shows the worker ID and the generator from now on.
func (d *daemon) measureWorker(ids *snowflake.Generator, w *worker.Worker) {
	d.metrics.SetSnowflake(metrics.Snowflake{
		Worker: w, Generator: ids, Layout: d.cfg.Layout, State: func() string { return workerState(ids, w) },
	})
}
