// Package metrics exports the state of worker, zkreg, segment and snowflake to
// Prometheus. It reads them at the scrape, and counts nothing that they don't. A scrape
// waits neither for ZooKeeper nor for the database nor for a lock of the request path.
// The number of series is bounded, however many tags and peers there are.
// docs/METRICS.md has every metric of the daemon.
package metrics

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
	"github.com/leafd/leafd/zkreg/zksession"
)

// Worker is the state of this daemon's worker ID; *worker.Worker is one.
type Worker interface {
	Stats() worker.Stats
	Record() worker.Record
	Peers() ([]clock.Sample, clock.Verdict, clock.Millis)
	Threshold() time.Duration
	Vote() clock.Vote
}

// Generator counts the calls that were not served at once; *snowflake.Generator is one.
type Generator interface {
	Stats() snowflake.Stats
}

// Session is the session with ZooKeeper; *zkreg.Registry is one.
type Session interface {
	Session() zksession.Info
}

// Segments is the state of the tags; *segment.Service is one.
type Segments interface {
	// Len returns how many tags there are.
	Len() int
	// Used calls yield with the state of each tag that was ever used.
	Used(yield func(segment.Status) bool)
	// Guard returns where the segments stand with their guard.
	Guard() segment.GuardStatus
}

var (
	_ Worker    = (*worker.Worker)(nil)
	_ Generator = (*snowflake.Generator)(nil)
	_ Session   = (*zkreg.Registry)(nil)
	_ Segments  = (*segment.Service)(nil)
)

// Snowflake has the sources of the metrics of snowflake IDs.
type Snowflake struct {
	Worker    Worker
	Generator Generator
	Layout    snowflake.Layout
	// State is one of Config.States. It must not block.
	State func() string
}

// Config is what Metrics need.
type Config struct {
	// Registerer gets the metrics. Required.
	Registerer prometheus.Registerer
	// Clock is the daemon's. Required.
	Clock clock.Clock
	// Ready tells whether the daemon is ready, as GET /readyz does. Required. It
	// must not block.
	Ready func() bool
	// States are the states of a worker, beginning with that of a daemon without a
	// worker ID; none where snowflake IDs are switched off.
	States []string
}

// Metrics are the metrics of one daemon. Sources that are not set are left out.
type Metrics struct {
	cfg       Config // immutable
	snowflake atomic.Pointer[Snowflake]
	session   atomic.Pointer[Session]
	segments  atomic.Pointer[Segments]
	issued    *issued
	fetches   fetches
}

// New returns Metrics that are registered. It returns the registry's error.
func New(cfg Config) (*Metrics, error) {
	if cfg.Registerer == nil || cfg.Clock == nil || cfg.Ready == nil {
		return nil, errors.New("Config needs Registerer, Clock and Ready")
	}
	m := &Metrics{cfg: cfg, issued: newIssued(), fetches: newFetches()}
	for _, c := range []prometheus.Collector{m, m.fetches.took, m.fetches.failed} {
		if err := cfg.Registerer.Register(c); err != nil {
			return nil, fmt.Errorf("%w", err)
		}
	}
	return m, nil
}

// SetSnowflake adds snowflake IDs from the next scrape on.
func (m *Metrics) SetSnowflake(s Snowflake) { m.snowflake.Store(&s) }

// SetSession adds the session with ZooKeeper from the next scrape on.
func (m *Metrics) SetSession(s Session) { m.session.Store(&s) }

// SetSegments adds the tags from the next scrape on.
func (m *Metrics) SetSegments(s Segments) { m.segments.Store(&s) }

// Describe implements prometheus.Collector. Which metrics there are depends on the sources.
func (m *Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	p := page{to: to}
	p.flag(descReady, m.cfg.Ready())
	m.collectState(p)
	if s := m.snowflake.Load(); s != nil {
		collectWorker(p, s.Worker)
		collectPeers(p, s.Worker)
		collectGenerator(p, s.Generator)
		p.put(descLayoutLeft, s.Layout.End().Sub(m.cfg.Clock.Read().Wall()).Seconds())
	}
	if s := m.session.Load(); s != nil {
		collectSession(p, (*s).Session())
	}
	if s := m.segments.Load(); s != nil {
		m.collectSegments(p, *s)
	}
}

// page is one scrape.
type page struct{ to chan<- prometheus.Metric }

// put sends value. labels are those of d, in its order, in valid UTF-8.
func (p page) put(d described, value float64, labels ...string) {
	p.to <- prometheus.MustNewConstMetric(d.desc, d.kind, value, labels...)
}

func (p page) flag(d described, on bool, labels ...string) {
	value := 0.0
	if on {
		value = 1
	}
	p.put(d, value, labels...)
}
