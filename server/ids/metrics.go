package ids

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics has the server's metrics. Label values are resolved in advance, so that no
// request looks one up.
type metrics struct {
	latency      *latency // of HTTP
	redisLatency *latency // of the Redis protocol
}

func newMetrics(reg *prometheus.Registry, version string) (*metrics, error) {
	m := &metrics{
		latency: newLatency("leafd_http_request_duration_seconds",
			"Requests for IDs, from when each was read until its response was written, without those with a bad key or count, and those beyond a limit."),
		redisLatency: newLatency("leafd_redis_request_duration_seconds", "The same of commands of the Redis protocol."),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "leafd_build_info",
		Help:        "1, with the build in its labels.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	issued := func(of mode) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "leafd_ids_issued_total", Help: "IDs put into responses.", ConstLabels: prometheus.Labels{"mode": kinds[of].name},
		}, func() float64 { return float64(m.issued(of)) })
	}
	for _, c := range []prometheus.Collector{m.latency, m.redisLatency, issued(snowflakeMode), issued(segmentMode), build} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	// The caller may have registered these already.
	for _, c := range []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		var there prometheus.AlreadyRegisteredError
		if err := reg.Register(c); err != nil && !errors.As(err, &there) {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return m, nil
}

// issued returns how many IDs of a mode were put into responses.
func (m *metrics) issued(of mode) int64 { return m.latency.issued(of) + m.redisLatency.issued(of) }
