package server

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
)

// latencyBounds are the upper ends of the histogram's buckets; what takes longer
// than the last counts in one more. They are few at the short end, where an ID
// that is in memory is answered in one or two microseconds.
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

// bucketOf returns the bucket of a request that took this long. Nearly all end
// at the first look.
func bucketOf(took time.Duration) int {
	i := 0
	for i < len(latencyBounds) && took > latencyBounds[i] {
		i++
	}
	return i
}

// timings counts requests of one sort by how long they took. Sum and the buckets
// up to a millisecond lie on one cache line: nearly every request touches no other.
type timings struct {
	sumNS  atomic.Int64
	counts [len(latencyBounds) + 1]atomic.Uint64
	batch  atomic.Int64 // IDs in batches; single ones are as many as counts says
	_      [16]byte     // three whole cache lines
}

// stripe is what the requests of some connections are counted in. Failed ones are
// kept apart, because the served ones are counted IDs as well.
type stripe struct {
	served, failed [modes][2]timings // by mode, and whether it is a batch
}

// latency counts the requests for IDs. It keeps:
//
//	L1  counting takes no lock and no memory, and a scrape keeps none of it from
//	    going on;
//	L2  a request is counted once, when its response is handed to the connection,
//	    and nothing is sampled: counts and sums are exact once nothing is in
//	    flight, and no count ever falls. A response that its connection was gone
//	    before is none;
//	L3  connections share a stripe only where there are more of them than
//	    stripes, so that processors seldom take the counters from each other;
//	L4  the clock is read once for all the responses that are written at once: of
//	    requests that came in one packet, one ends where the next begins.
type latency struct {
	stripes []stripe // immutable; a power of two of them
	mask    uint64   // immutable: their number less one
}

func newLatency() *latency {
	n := uint64(8)
	for n < 256 && n < 4*uint64(runtime.GOMAXPROCS(0)) { //nolint:gosec // at least 1
		n *= 2
	}
	return &latency{stripes: make([]stripe, n), mask: n - 1}
}

// of returns the stripe of the request's connection.
func (l *latency) of(ctx *fasthttp.RequestCtx) *stripe {
	return &l.stripes[ctx.ConnID()&l.mask]
}

// one counts a request for one ID that is answered.
func (l *latency) one(ctx *fasthttp.RequestCtx, m mode) {
	count(ctx, &l.of(ctx).served[m][0])
}

// many counts a request for n IDs at once that is answered.
func (l *latency) many(ctx *fasthttp.RequestCtx, m mode, n int) {
	t := &l.of(ctx).served[m][1]
	t.batch.Add(int64(n))
	count(ctx, t)
}

// refuse counts a request for which IDs were asked for, and not had.
func (l *latency) refuse(ctx *fasthttp.RequestCtx, m mode, batch bool) {
	count(ctx, &l.of(ctx).failed[m][index(batch)])
}

// count counts a request in t, from when it was read: now, or, where its connection
// tells us, when the response is written.
func count(ctx *fasthttp.RequestCtx, t *timings) {
	if c, ok := ctx.Conn().(*conn); ok {
		c.answered.next(t, ctx.Time())
		return
	}
	t.add(time.Since(ctx.Time()))
}

// answered is a request of a connection whose response is not written yet (L4). It is
// of the goroutine that serves the connection.
type answered struct {
	in    *timings // nil: there is none
	began time.Time
}

// next puts a request that was read at began into the place of the one before.
func (a *answered) next(in *timings, began time.Time) {
	if a.in != nil {
		a.in.add(began.Sub(a.began))
	}
	a.in, a.began = in, began
}

// written is called when the responses are.
func (a *answered) written() {
	if a.in != nil {
		a.in.add(time.Since(a.began))
		a.in = nil
	}
}

func index(batch bool) int {
	if batch {
		return 1
	}
	return 0
}

// add counts a request that took this long.
func (t *timings) add(took time.Duration) {
	t.counts[bucketOf(took)].Add(1)
	t.sumNS.Add(int64(took))
}

// issued is how many IDs of a mode were put into responses.
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

// histogram is a histogram of requests as it is scraped.
type histogram struct {
	buckets map[float64]uint64 // by upper bound in seconds: cumulative
	count   uint64
	seconds float64
}

// histogram adds up the requests of one sort, failed ones among them.
func (l *latency) histogram(m mode, batch bool) histogram {
	var counts [len(latencyBounds) + 1]uint64
	var sumNS int64
	for i := range l.stripes {
		for _, t := range []*timings{&l.stripes[i].served[m][index(batch)], &l.stripes[i].failed[m][index(batch)]} {
			for b := range counts {
				counts[b] += t.counts[b].Load()
			}
			sumNS += t.sumNS.Load()
		}
	}
	h := histogram{buckets: make(map[float64]uint64, len(latencyBounds)), seconds: time.Duration(sumNS).Seconds()}
	for b, n := range counts {
		h.count += n
		if b < len(latencyBounds) {
			h.buckets[latencyBounds[b].Seconds()] = h.count
		}
	}
	return h
}

// modeNames are the label values of the modes.
//
//nolint:gochecknoglobals // never written to
var modeNames = [modes]string{snowflakeMode: "snowflake", segmentMode: "segment"}

// latencyCollector shows a latency to Prometheus: the histograms are made when
// they are asked for.
type latencyCollector struct {
	latency *latency
	desc    *prometheus.Desc
	issued  *prometheus.Desc
}

var _ prometheus.Collector = latencyCollector{}

func newLatencyCollector(l *latency) latencyCollector {
	return latencyCollector{
		latency: l,
		desc: prometheus.NewDesc("leafd_http_request_duration_seconds",
			"Requests for IDs, from when each was read until its response was written, or the next of its connection was read, whether it has IDs or an error. Those that are refused before an ID is asked for (bad key or count, limits) are not among them.",
			[]string{"mode", "batch"}, nil),
		issued: prometheus.NewDesc("leafd_ids_issued_total", "IDs put into responses.", []string{"mode"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c latencyCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.desc
	descs <- c.issued
}

// Collect implements prometheus.Collector.
func (c latencyCollector) Collect(metrics chan<- prometheus.Metric) {
	send := func(desc *prometheus.Desc, m prometheus.Metric, err error) {
		if err != nil { // the labels don't fit: a mistake in this file
			m = prometheus.NewInvalidMetric(desc, err)
		}
		metrics <- m
	}
	for _, m := range []mode{snowflakeMode, segmentMode} {
		name := modeNames[m]
		issued, err := prometheus.NewConstMetric(c.issued, prometheus.CounterValue, float64(c.latency.issued(m)), name)
		send(c.issued, issued, err)
		for _, batch := range []string{"no", "yes"} {
			h := c.latency.histogram(m, batch == "yes")
			shown, err := prometheus.NewConstHistogram(c.desc, h.count, h.seconds, h.buckets, name, batch)
			send(c.desc, shown, err)
		}
	}
}
