package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/server/metrics"
)

// openMetrics registers the daemon's metrics beside those of server and alarm. Most
// have values once the part that they measure has started.
func (d *daemon) openMetrics(registry *prometheus.Registry) error {
	cfg := metrics.Config{Registerer: registry, Clock: d.clk, Ready: d.server.Ready}
	if d.cfg.Snowflake.On {
		cfg.States = condition.WorkerStates()
	}
	var err error
	d.metrics, err = metrics.New(cfg)
	return err
}
