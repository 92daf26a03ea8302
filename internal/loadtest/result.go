package loadtest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency is the distribution of how long requests took that brought IDs. All
// are 0 where there was none. Three digits count.
type Latency struct {
	Count int64         `json:"count"`
	Mean  time.Duration `json:"mean"`
	P50   time.Duration `json:"p50"`
	P90   time.Duration `json:"p90"`
	P99   time.Duration `json:"p99"`
	P999  time.Duration `json:"p99_9"`
	P9999 time.Duration `json:"p99_99"`
	Max   time.Duration `json:"max"`
}

// LatencyOf sums up h, which NewHistogram made; of none it is zero.
func LatencyOf(h *hdrhistogram.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	at := h.ValueAtPercentiles([]float64{50, 90, 99, 99.9, 99.99})
	return Latency{
		Count: h.TotalCount(), Mean: time.Duration(h.Mean()), Max: time.Duration(h.Max()),
		P50: time.Duration(at[50]), P90: time.Duration(at[90]), P99: time.Duration(at[99]),
		P999: time.Duration(at[99.9]), P9999: time.Duration(at[99.99]),
	}
}

// Progress is a look at a run under way.
type Progress struct {
	Elapsed  time.Duration
	Interval time.Duration // since the last look
	Total    Counts
	Since    Counts  // of the interval
	Latency  Latency // of the interval
	// Behind is how many requests have had their turn and aren't sent yet.
	Behind int64
}

// Result is what a run showed.
type Result struct {
	Begun  time.Time     `json:"begun"`
	Window time.Duration `json:"window_ns"` // how long requests were sent
	// Elapsed is until the last IDs came: the rates are computed from it.
	Elapsed time.Duration `json:"elapsed_ns"`
	// EndedEarly says that the run was ended before its duration.
	EndedEarly bool `json:"ended_early"`

	Counts
	Targets []TargetCounts `json:"daemons"`
	// Latency counts from a request's turn; Service, of an open loop, from when
	// it was sent.
	Latency  Latency   `json:"latency_ns"`
	Service  Latency   `json:"service_ns,omitzero"`
	Failures []Failure `json:"failures"` // the most frequent first

	// Due is how many requests had their turn, and NotSent how many of them were
	// never sent because all clients waited for answers until the end. 0 in a
	// closed loop.
	Due     int64 `json:"due"`
	NotSent int64 `json:"not_sent"`

	// NotGrowing is how many IDs did not exceed the one before, Wrong how many
	// answers of status 200 were not the IDs asked for.
	NotGrowing      int64   `json:"not_growing"`
	FirstNotGrowing []Fault `json:"first_not_growing,omitempty"`
	Wrong           int64   `json:"wrong_answers"`

	// Unique has a verdict for each set of IDs that must differ, with Config.Check.
	Unique []UniqueSet `json:"unique,omitempty"`

	// Latencies are those that Latency is of, for sums over several runs.
	Latencies *hdrhistogram.Histogram `json:"-"`
}

// TargetCounts are the counts of one daemon.
type TargetCounts struct {
	URL string `json:"url"`
	Counts
}

// watch looks at the run until done is closed.
func (r *run) watch(done <-chan struct{}) {
	if r.cfg.Every <= 0 || r.cfg.Progress == nil {
		return
	}
	ticker := time.NewTicker(r.cfg.Every)
	defer ticker.Stop()
	var before Progress
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
		}
		p := Progress{Elapsed: r.schedule.now()}
		p.Total, p.Latency = r.rec.look()
		p.Interval = p.Elapsed - before.Elapsed
		p.Since = p.Total
		p.Since.plus(before.Total, -1)
		if r.cfg.Rate > 0 {
			p.Behind = max(0, r.schedule.due(p.Elapsed)-r.schedule.turns.Load())
		}
		r.cfg.Progress(p)
		before = p
	}
}

// result puts together what was recorded, once all clients have ended.
func (r *run) result(begun time.Time) *Result {
	rec := r.rec
	counts, _ := rec.look()
	window := r.schedule.window()
	res := &Result{
		Begun: begun.UTC(), Window: window, Elapsed: max(rec.last, window), EndedEarly: window < r.cfg.Duration,
		Counts: counts, Latency: LatencyOf(rec.all), Failures: []Failure{},
		NotGrowing: rec.fell, FirstNotGrowing: rec.fellAt, Wrong: rec.wrong,
		Latencies: rec.all,
	}
	for i, t := range r.targets {
		res.Targets = append(res.Targets, TargetCounts{URL: t.name, Counts: rec.targets[i]})
	}
	for _, f := range rec.failures {
		res.Failures = append(res.Failures, *f)
	}
	slices.SortFunc(res.Failures, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Code, b.Code))
	})
	if r.cfg.Rate > 0 {
		res.Service = LatencyOf(rec.service)
		res.Due = r.schedule.due(window)
		res.NotSent = max(0, res.Due-counts.Sent)
	}
	for i, set := range r.seen {
		key := ""
		if r.cfg.Mode == Segment {
			key = r.cfg.Keys[i]
		}
		res.Unique = append(res.Unique, set.compare(key))
	}
	return res
}

// Surplus is how many of the IDs compared had come before.
func (r *Result) Surplus() int64 {
	var n int64
	for _, set := range r.Unique {
		n += set.Surplus
	}
	return n
}

// Verdict returns what is wrong with the run, nil when nothing is: ErrFailed,
// ErrRepeated, ErrNotGrowing and ErrWrongAnswer, joined. Requests that were refused, or
// not sent, are figures and no fault.
func (r *Result) Verdict() error {
	var errs []error
	say := func(is error, n int64) {
		if n > 0 {
			errs = append(errs, fmt.Errorf("%w: %d", is, n))
		}
	}
	say(ErrRepeated, r.Surplus())
	say(ErrNotGrowing, r.NotGrowing)
	say(ErrWrongAnswer, r.Wrong)
	if r.Answered == 0 {
		errs = append(errs, ErrFailed)
	}
	return errors.Join(errs...)
}
