package loadtest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
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

// newHistogram returns one of latencies in nanoseconds, up to an hour, with three digits.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(128, int64(time.Hour), 3) }

// latencyOf sums up h, which newHistogram made; of none it is zero.
func latencyOf(h *hdrhistogram.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	at := func(percent float64) time.Duration { return time.Duration(h.ValueAtPercentile(percent)) }
	return Latency{h.TotalCount(), time.Duration(h.Mean()), at(50), at(90), at(99), at(99.9), at(99.99), time.Duration(h.Max())}
}

// Counts are sums over requests.
type Counts struct {
	// Sent is how many requests were sent, or could not be because there was no connection.
	Sent int64 `json:"requests"`
	// Answered is how many brought IDs.
	Answered int64 `json:"answered"`
	// Failed is how many requests were refused, failed or brought anything else.
	Failed int64 `json:"failed"`
	// IDs is how many came.
	IDs int64 `json:"ids"`
}

// plus returns c and sign times o.
func (c Counts) plus(o Counts, sign int64) Counts {
	return Counts{c.Sent + sign*o.Sent, c.Answered + sign*o.Answered, c.Failed + sign*o.Failed, c.IDs + sign*o.IDs}
}

// Failure is one way in which requests failed.
type Failure struct {
	// Status is the HTTP status; 0: there was no answer.
	Status int `json:"status"`
	// Code is the daemon's error code, "" where the answer had none; without an
	// answer a word for what went wrong, as timeout or connection_refused.
	Code    string `json:"code"`
	Count   int64  `json:"count"`
	Example string `json:"example"` // of the first
}

// Progress is a look at a run under way.
type Progress struct {
	Elapsed, Interval time.Duration // since the start, and since the last look
	Total, Since      Counts        // of these
	Latency           Latency       // of the interval
	Behind            int64         // requests that have had their turn and aren't sent yet
}

// Result is what a run showed.
type Result struct {
	Window time.Duration `json:"window_ns"` // how long requests were sent
	// Elapsed is until the last IDs came: the rates are computed from it.
	Elapsed time.Duration `json:"elapsed_ns"`

	Counts
	Targets  []TargetCounts `json:"daemons"`
	Latency  Latency        `json:"latency_ns"` // from a request's turn
	Failures []Failure      `json:"failures"`   // the most frequent first

	// Due is how many requests had their turn, and NotSent how many of them were
	// never sent because all clients waited for answers until the end. 0 in a
	// closed loop.
	Due     int64 `json:"due"`
	NotSent int64 `json:"not_sent"`

	// NotGrowing is how many IDs did not exceed the one before, and Wrong how many
	// answers of status 200 were not the IDs asked for.
	NotGrowing int64 `json:"not_growing"`
	Wrong      int64 `json:"wrong_answers"`

	// Unique has a verdict for each set of IDs that must differ, with Config.Check.
	Unique []UniqueSet `json:"unique,omitempty"`
}

// TargetCounts are the counts of one daemon.
type TargetCounts struct {
	URL string `json:"url"`
	Counts
}

// Surplus returns how many of the IDs compared had come before.
func (r *Result) Surplus() (n int64) {
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

// recorder takes the outcomes of all clients.
type recorder struct {
	mu       sync.Mutex
	interval *hdrhistogram.Histogram // mu protects; latencies since the last look
	all      *hdrhistogram.Histogram // mu protects; those before
	targets  []Counts                // mu protects; by target
	last     time.Duration           // mu protects; when the last IDs came
	failures map[string]*Failure     // mu protects; by status and code
	fell     int64                   // mu protects; IDs that didn't grow
	wrong    int64                   // mu protects; answers that were not the IDs asked for
	seen     []*idSet                // mu protects; none without Config.Check
}

func newRecorder(cfg Config) *recorder {
	r := &recorder{interval: newHistogram(), all: newHistogram(), failures: map[string]*Failure{}, targets: make([]Counts, max(1, len(cfg.URLs)))}
	if cfg.Check {
		sets := cfg.set(len(cfg.Keys)-1) + 1
		for range sets {
			r.seen = append(r.seen, &idSet{room: maxKept / sets})
		}
	}
	return r
}

// takeLocked notes the IDs of an answer; r.mu is held.
func (r *recorder) takeLocked(cfg Config, key int, ids []int64) {
	if len(ids) > 0 && r.seen != nil {
		r.seen[cfg.set(key)].add(ids)
	}
	if len(ids) > 0 && cfg.Take != nil {
		cfg.Take(cfg.set(key), ids)
	}
}

// growingLocked checks that the IDs of an answer grow, from the one before, and returns the last; r.mu is held.
func (r *recorder) growingLocked(ids []int64, before int64) int64 {
	for _, id := range ids {
		if id <= before {
			r.fell++
		}
		before = id
	}
	return before
}

// answeredLocked records how long a request took; r.mu is held. What is longer than an hour counts as one.
func (r *recorder) answeredLocked(turn, sent, done time.Duration) {
	_ = r.interval.RecordValue(int64(min(done-min(turn, sent), time.Hour))) // it fails for values out of range only
	r.last = max(r.last, done)
}

// failedLocked records a request that failed; r.mu is held.
func (r *recorder) failedLocked(status int, code, example string) {
	key := fmt.Sprint(status, code)
	if r.failures[key] == nil && len(r.failures) >= 50 {
		key, status, code = "other", 0, "other"
	}
	if r.failures[key] == nil {
		r.failures[key] = &Failure{Status: status, Code: code, Example: example}
	}
	r.failures[key].Count++
}

// look returns the counts so far, and the latencies since the last look.
func (r *recorder) look() (counts Counts, latency Latency) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.targets {
		counts = counts.plus(c, 1)
	}
	latency = latencyOf(r.interval)
	r.all.Merge(r.interval)
	r.interval.Reset()
	return counts, latency
}

// watch looks at the run until done is closed.
func (r *run) watch(done <-chan struct{}) {
	if r.cfg.Every <= 0 || r.cfg.Progress == nil {
		return
	}
	ticker := time.NewTicker(r.cfg.Every)
	defer ticker.Stop()
	for before := (Progress{}); ; {
		select {
		case <-done:
			return
		case <-ticker.C:
		}
		p := Progress{Elapsed: r.now()}
		p.Total, p.Latency = r.rec.look()
		p.Interval, p.Since = p.Elapsed-before.Elapsed, p.Total.plus(before.Total, -1)
		if r.cfg.Rate > 0 {
			p.Behind = max(0, r.due(p.Elapsed)-r.turns.Load())
		}
		r.cfg.Progress(p)
		before = p
	}
}

// result puts together what was recorded, once all clients have ended.
func (r *run) result() *Result {
	rec, window := r.rec, r.window()
	counts, _ := rec.look()
	res := &Result{
		Window: window, Elapsed: max(rec.last, window), Counts: counts, Latency: latencyOf(rec.all), Failures: []Failure{},
		NotGrowing: rec.fell, Wrong: rec.wrong,
	}
	for i, t := range r.targets {
		res.Targets = append(res.Targets, TargetCounts{URL: t.name, Counts: rec.targets[i]})
	}
	for f := range maps.Values(rec.failures) {
		res.Failures = append(res.Failures, *f)
	}
	slices.SortFunc(res.Failures, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Code, b.Code))
	})
	if r.cfg.Rate > 0 {
		res.Due = r.due(window)
		res.NotSent = max(0, res.Due-counts.Sent)
	}
	for i, set := range rec.seen {
		key := ""
		if r.cfg.Mode == Segment {
			key = r.cfg.Keys[i]
		}
		res.Unique = append(res.Unique, set.compare(key))
	}
	return res
}

// sample returns the beginning of what a server said, for people.
func sample(body []byte) string {
	const most = 200
	text, more := bytes.TrimSpace(body), ""
	if len(text) > most {
		text, more = text[:most], "…"
	}
	return strings.ToValidUTF8(string(text), "?") + more
}
