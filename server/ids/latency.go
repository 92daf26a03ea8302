package ids

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/conn"
)

// latencyBounds are the upper bounds of the histogram's buckets; one more bucket has no
// bound. They are few at the short end, where an ID in memory is answered in one or two
// microseconds.
//
//nolint:gochecknoglobals // never written to
var latencyBounds = [...]time.Duration{
	10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second,
}

// bucketOf returns the bucket of a request that took this long: nearly always the first.
func bucketOf(took time.Duration) int {
	i := 0
	for i < len(latencyBounds) && took > latencyBounds[i] {
		i++
	}
	return i
}

// timings counts requests of one kind by how long they took. The sum and the buckets up
// to a millisecond share a cache line: nearly every request touches no other.
type timings struct {
	sumNS  atomic.Int64
	counts [len(latencyBounds) + 1]atomic.Uint64
	batch  atomic.Int64 // IDs in batches; counts has the number of single ones
	_      [16]byte     // three whole cache lines
}

// stripe counts the requests of some connections. Failed ones are counted separately,
// because the served ones count IDs as well.
type stripe struct {
	served, failed [modes][2]timings // by mode, and whether it is a batch
}

// latency counts the requests for IDs. It keeps:
//
//  1. Counting takes no lock and no memory, and a scrape never blocks it.
//  2. A request is counted once, when its response is handed to the
//     connection, and nothing is sampled: counts and sums are exact once nothing
//     is in flight, and no count ever falls. A response is not counted if its
//     connection is closed before.
//  3. Connections share a stripe only where there are more of them than
//     stripes, so that processors seldom contend for the counters.
//  4. The clock is read once for all responses that are written together: of
//     requests that came in one packet, one ends where the next begins.
type latency struct {
	desc    *prometheus.Desc
	stripes []stripe // immutable; a power of two of them
	mask    uint64   // immutable: the number of stripes less one
}

func newLatency(name, help string) *latency {
	n := uint64(8)
	for n < 256 && n < 4*uint64(runtime.GOMAXPROCS(0)) { //nolint:gosec // at least 1
		n *= 2
	}
	return &latency{desc: prometheus.NewDesc(name, help, []string{"mode", "batch"}, nil), stripes: make([]stripe, n), mask: n - 1}
}

// of returns the stripe of the request's connection.
func (l *latency) of(ctx *fasthttp.RequestCtx) *stripe {
	return &l.stripes[ctx.ConnID()&l.mask]
}

// one counts a request on c for one ID, which arrived at mono and is answered.
func (l *latency) one(ctx *fasthttp.RequestCtx, c *client, m mode, mono time.Duration) {
	c.answered.next(&l.of(ctx).served[m][0], mono)
}

// many counts a request for n IDs at once that is answered.
func (l *latency) many(ctx *fasthttp.RequestCtx, m mode, n int) {
	t := &l.of(ctx).served[m][1]
	t.batch.Add(int64(n))
	clientOf(ctx).answered.next(t, clock.MonoOf(ctx.Time()))
}

// refuse counts a request that asked for IDs and got none.
func (l *latency) refuse(ctx *fasthttp.RequestCtx, m mode, batch bool) {
	clientOf(ctx).answered.next(&l.of(ctx).failed[m][index(batch)], clock.MonoOf(ctx.Time()))
}

// answered is a request of a connection, with its response not written yet.
// Only the goroutine that serves the connection uses it.
type answered struct {
	in    *timings      // nil: no request
	began time.Duration // on the monotonic clock
	// Those before it in the same timings and in their first bucket, not added yet.
	quick   uint64
	quickNS int64
}

// next replaces the previous request by one that was read at began.
func (a *answered) next(in *timings, began time.Duration) {
	if a.in != nil {
		if took := began - a.began; in == a.in && took <= latencyBounds[0] {
			a.quick++
			a.quickNS += int64(took)
		} else {
			a.add(took)
		}
	}
	a.in, a.began = in, began
}

// written is called when the responses are written.
func (a *answered) written() {
	if a.in != nil {
		a.add(clock.MonoOf(time.Now()) - a.began)
		a.in = nil
	}
}

// add adds a request that took this long, and those before it.
func (a *answered) add(took time.Duration) {
	if a.quick > 0 {
		a.in.counts[0].Add(a.quick)
		a.in.sumNS.Add(a.quickNS)
		a.quick, a.quickNS = 0, 0
	}
	a.in.add(took, 1)
}

func index(batch bool) int {
	if batch {
		return 1
	}
	return 0
}

// add counts n requests that took this long each.
func (t *timings) add(took time.Duration, n int) {
	t.counts[bucketOf(took)].Add(uint64(n)) //nolint:gosec // counted up one by one
	t.sumNS.Add(int64(took) * int64(n))
}

// issued returns how many IDs of a mode were put into responses.
func (l *latency) issued(m mode) int64 {
	var n int64
	for i := range l.stripes {
		served := &l.stripes[i].served[m]
		n += served[1].batch.Load()
		for b := range served[0].counts {
			n += int64(served[0].counts[b].Load()) //nolint:gosec // counted up one by one
		}
	}
	return n
}

// histogram adds up the requests of one kind, failed ones included.
func (l *latency) histogram(m mode, batch int) prometheus.Metric {
	var counts [len(latencyBounds) + 1]uint64
	var sumNS int64
	for i := range l.stripes {
		for _, t := range []*timings{&l.stripes[i].served[m][batch], &l.stripes[i].failed[m][batch]} {
			for b := range counts {
				counts[b] += t.counts[b].Load()
			}
			sumNS += t.sumNS.Load()
		}
	}
	count, buckets := uint64(0), make(map[float64]uint64, len(latencyBounds)) // cumulative, by upper bound
	for b, n := range counts {
		count += n
		if b < len(latencyBounds) {
			buckets[latencyBounds[b].Seconds()] = count
		}
	}
	return prometheus.MustNewConstHistogram(l.desc, count, time.Duration(sumNS).Seconds(), buckets, kinds[m].name, [...]string{"no", "yes"}[batch])
}

var _ prometheus.Collector = (*latency)(nil)

// Describe implements prometheus.Collector.
func (l *latency) Describe(descs chan<- *prometheus.Desc) { descs <- l.desc }

// Collect implements prometheus.Collector.
func (l *latency) Collect(metrics chan<- prometheus.Metric) {
	for _, m := range []mode{snowflakeMode, segmentMode} {
		metrics <- l.histogram(m, 0)
		metrics <- l.histogram(m, 1)
	}
}

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
	// The caller may have registered these already.
	for _, c := range []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		var there prometheus.AlreadyRegisteredError
		if err := reg.Register(c); err != nil && !errors.As(err, &there) {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return m, conn.Register(reg, m.latency, m.redisLatency, issued(snowflakeMode), issued(segmentMode), build)
}

// issued returns how many IDs of a mode were put into responses.
func (m *metrics) issued(of mode) int64 { return m.latency.issued(of) + m.redisLatency.issued(of) }
