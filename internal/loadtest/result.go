package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/leafd/leafd/internal/loadtest/unique"
)

// Latency is the distribution of how long requests took that brought IDs. All
// are 0 where there was none. Three digits count.
type Latency struct {
	Count                                 int64
	Mean, P50, P90, P99, P999, P9999, Max time.Duration
}

func latencyOf(h *hdrhistogram.Histogram) Latency {
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

// Together is the distribution of the latencies of several Runs as one.
func Together(results ...*Result) Latency {
	all, most := newHistogram(), time.Duration(0)
	for _, r := range results {
		if r.latencies != nil { // of a Result that Run made
			all.Merge(r.latencies)
		}
		most = max(most, r.Latency.Max)
	}
	return latencyOf(all).exactly(most)
}

// exactly sets the largest latency, of which a histogram knows three digits.
func (l Latency) exactly(most time.Duration) Latency {
	for _, d := range []*time.Duration{&l.P50, &l.P90, &l.P99, &l.P999, &l.P9999} {
		*d = min(*d, most)
	}
	l.Max = most
	return l
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
	Begun  time.Time
	Window time.Duration // how long requests were sent
	// Elapsed is until the last IDs came: the rates are computed from it.
	Elapsed time.Duration
	// EndedEarly says that the run was ended before its duration.
	EndedEarly bool

	Counts  Counts
	Targets []TargetCounts
	// Latency counts from a request's turn; Service, of an open loop, from when
	// it was sent.
	Latency, Service Latency
	Failures         []Failure // the most frequent first

	// Due is how many requests had their turn, and NotSent how many of them were
	// never sent because all clients waited for answers until the end. 0 in a
	// closed loop.
	Due, NotSent int64

	// NotGrowing is how many IDs did not exceed the one before, Wrong how many
	// answers of status 200 were not the IDs asked for; the first of each.
	NotGrowing, Wrong           int64
	FirstNotGrowing, FirstWrong []Fault

	// Unique has a verdict for each set of IDs that must differ, after
	// CheckUnique; Checked says that it is complete.
	Unique  []UniqueSet
	Checked bool

	cfg       Config
	journals  []*unique.Journal
	broken    error
	latencies *hdrhistogram.Histogram
}

// TargetCounts are the counts of one daemon.
type TargetCounts struct {
	URL string
	Counts
}

// UniqueSet is the verdict on IDs that must differ.
type UniqueSet struct {
	Key string // of Mode Segment: the tag; else ""
	unique.Report
}

// watch looks at the run until done is closed.
func (r *run) watch(done <-chan struct{}) {
	if r.cfg.Every <= 0 || r.cfg.Progress == nil {
		return
	}
	ticker := time.NewTicker(r.cfg.Every)
	defer ticker.Stop()
	interval := newHistogram()
	var before Progress
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
		}
		interval.Reset()
		p := Progress{Elapsed: r.schedule.now()}
		for _, rec := range r.recs {
			c, _, _ := rec.look(interval, r.service)
			p.Total.add(c)
		}
		r.latency.Merge(interval)
		p.Interval = p.Elapsed - before.Elapsed
		p.Latency = latencyOf(interval)
		p.Since = p.Total.minus(before.Total)
		if r.cfg.Rate > 0 {
			p.Behind = max(0, r.schedule.due(p.Elapsed)-r.schedule.turns.Load())
		}
		r.cfg.Progress(p)
		before = p
	}
}

func (c Counts) minus(o Counts) Counts {
	o = Counts{-o.Sent, -o.Answered, -o.IDs, -o.Failed, -o.Unfinished, -o.Unknown, -o.Reconnected}
	c.add(o)
	return c
}

// result puts together what the recorders have, once all clients have ended.
func (r *run) result(begun time.Time) *Result {
	res := &Result{
		Begun: begun, Window: r.schedule.window(), EndedEarly: r.schedule.window() < r.cfg.Duration,
		cfg: r.cfg, journals: r.owned(), broken: r.broken(), latencies: r.latency,
	}
	for _, t := range r.targets {
		res.Targets = append(res.Targets, TargetCounts{URL: t.name})
	}
	var order, wrong faults
	var slowest time.Duration
	failures := map[failureKey]*Failure{}
	for _, rec := range r.recs {
		counts, slow, last := rec.look(r.latency, r.service)
		res.Counts.add(counts)
		res.Elapsed = max(res.Elapsed, last)
		slowest = max(slowest, slow)
		for i, c := range rec.targets {
			res.Targets[i].add(c)
		}
		order.merge(rec.order)
		wrong.merge(rec.wrong)
		for key, f := range rec.failures {
			if known := failures[key]; known != nil {
				known.Count += f.Count
			} else {
				failures[key] = f
			}
		}
	}
	res.Elapsed = max(res.Elapsed, res.Window)
	res.Latency, res.Service = latencyOf(r.latency).exactly(slowest), latencyOf(r.service)
	res.NotGrowing, res.FirstNotGrowing = order.count, order.first
	res.Wrong, res.FirstWrong = wrong.count, wrong.first
	for _, f := range failures {
		res.Failures = append(res.Failures, *f)
	}
	slices.SortFunc(res.Failures, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Code, b.Code))
	})
	if r.cfg.Rate > 0 {
		res.Due = r.schedule.due(res.Window)
		res.NotSent = max(0, res.Due-res.Counts.Sent)
	}
	return res
}

// CheckUnique compares the IDs. It may be called once; without Config.Check it
// does nothing. An error says why there is no verdict.
func (r *Result) CheckUnique(ctx context.Context, progress unique.Progress) error {
	if len(r.journals) == 0 {
		return nil
	}
	if r.broken != nil {
		return r.broken
	}
	for i, j := range r.journals {
		report, err := j.Check(ctx, progress)
		if err != nil {
			r.broken = err
			return err
		}
		set := UniqueSet{Report: report}
		if r.cfg.Mode == Segment {
			set.Key = r.cfg.Keys[i]
		}
		r.Unique = append(r.Unique, set)
		// Its disk space goes back before the next one needs some.
		if err := j.Close(); err != nil {
			r.broken = err
			return err
		}
	}
	r.Checked = true
	return nil
}

// Close gives back what the check took. It may be called again.
func (r *Result) Close() error { return closeAll(r.journals) }

// Surplus is how many IDs came that had come before.
func (r *Result) Surplus() int64 {
	var n int64
	for _, set := range r.Unique {
		n += set.Surplus
	}
	return n
}

// Verdict returns what is wrong with the run, nil when nothing is: ErrFailed,
// ErrRepeated, ErrNotGrowing, ErrWrongAnswer and ErrUnchecked, joined. Requests
// that were refused, or not sent, are figures and no fault.
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
	if len(r.journals) > 0 && !r.Checked {
		errs = append(errs, fmt.Errorf("%w: %w", ErrUnchecked, cmp.Or(r.broken, errNotChecked)))
	}
	if r.Counts.Answered == 0 {
		errs = append(errs, ErrFailed)
	}
	return errors.Join(errs...)
}

var errNotChecked = errors.New("the check was not run")
