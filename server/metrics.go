package server

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
	"github.com/valyala/fasthttp"
)

// metrics has the server's metrics. Label values are resolved in advance, so that no
// request looks one up.
type metrics struct {
	latency      *latency // of HTTP
	redisLatency *latency // of the Redis protocol

	gather prometheus.Gatherer
}

func newMetrics(reg *prometheus.Registry, version string) (*metrics, error) {
	m := &metrics{
		latency: newLatency("leafd_http_request_duration_seconds",
			"Requests for IDs, from when each was read until its response was written, without those with a bad key or count, and those beyond a limit."),
		redisLatency: newLatency("leafd_redis_request_duration_seconds", "The same of commands of the Redis protocol."),
		gather:       reg,
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "leafd_build_info",
		Help:        "1, with the build in its labels.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	issued := func(of mode) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "leafd_ids_issued_total", Help: "IDs put into responses.", ConstLabels: prometheus.Labels{"mode": modeNames[of]},
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

// serveMetrics answers GET /metrics. Each format has its own scrapes.
func (s *Server) serveMetrics(ctx *fasthttp.RequestCtx) error {
	format := expfmt.NegotiateAccept(http.Header{"Accept": {string(ctx.Request.Header.Peek(fasthttp.HeaderAccept))}}, expfmt.DefaultAcceptedFormats()...)
	return s.common(ctx, string(format), func() ([]byte, error) {
		return s.text(string(format), textShare, func() ([]byte, error) { return s.metrics.scrape(format) })
	})
}

// scrape returns all metrics.
func (m *metrics) scrape(format expfmt.Format) ([]byte, error) {
	families, err := m.gather.Gather()
	if err != nil {
		return nil, fmt.Errorf("gathering metrics: %w", err)
	}
	var page bytes.Buffer
	enc := expfmt.NewEncoder(&page, format)
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			return nil, fmt.Errorf("encoding metrics: %w", err)
		}
	}
	return page.Bytes(), nil
}
