package loadtest

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/leafd/leafd/internal/loadtest/unique"
)

// Latencies are recorded in nanoseconds with three digits, up to an hour.
const (
	latencyUnit   = 128
	latencyMost   = int64(time.Hour)
	latencyDigits = 3
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(latencyUnit, latencyMost, latencyDigits)
}

// Counts are sums over requests. They are taken at one moment for each recorder.
type Counts struct {
	// Sent is how many requests were sent, or could not be because there was no connection.
	Sent int64
	// Answered is how many brought IDs.
	Answered int64
	// IDs is how many came.
	IDs int64
	// Failed is how many requests were refused, failed or brought anything else.
	Failed int64
	// Unfinished is how many had no answer yet when the run was ended early.
	Unfinished int64
	// Unknown is how many of the IDs asked for may have been used up without
	// having come whole: nothing is known of them.
	Unknown int64
	// Reconnected is how often a connection was made again that the daemon had
	// closed between two requests.
	Reconnected int64
}

func (c *Counts) add(o Counts) {
	c.Sent += o.Sent
	c.Answered += o.Answered
	c.IDs += o.IDs
	c.Failed += o.Failed
	c.Unfinished += o.Unfinished
	c.Unknown += o.Unknown
	c.Reconnected += o.Reconnected
}

// Failure is one way in which requests failed.
type Failure struct {
	// Status is the HTTP status; 0: there was no answer.
	Status int
	// Code is the daemon's error code, "" where the answer had none; without an
	// answer a word for what went wrong, as timeout or connection_refused.
	Code    string
	Count   int64
	Example string // of the first of a recorder
}

// Fault is an answer that broke a promise.
type Fault struct {
	Place unique.Place
	What  string
}

// maxExamples is how many faults and kinds of failures are kept with details.
const (
	maxExamples = 10
	maxFailures = 50
)

type failureKey struct {
	status int
	code   string
}

// recorder takes the outcomes of some clients; several share one, so that ten
// thousand clients don't need ten thousand histograms.
type recorder struct {
	mu       sync.Mutex
	latency  *hdrhistogram.Histogram // mu protects; since the last look
	service  *hdrhistogram.Histogram // mu protects; as latency, from the sending; nil in a closed loop
	targets  []Counts                // mu protects; by target
	slowest  time.Duration           // mu protects; of latency, over all
	last     time.Duration           // mu protects; when the last IDs came
	failures map[failureKey]*Failure // mu protects
	order    faults                  // mu protects; IDs that didn't grow
	wrong    faults                  // mu protects; answers that were not the IDs asked for
	lanes    []*unique.Lane          // mu protects; by journal; none: no check
	_        [64]byte                // the next recorder's lock is in another cache line

	// Of the goroutine that looks: empty, to be put in the place of those above.
	spareLatency, spareService *hdrhistogram.Histogram
}

type faults struct {
	count int64
	first []Fault
}

func (f *faults) add(p unique.Place, what func() string) {
	f.count++
	if len(f.first) < maxExamples {
		f.first = append(f.first, Fault{Place: p, What: what()})
	}
}

func (f *faults) merge(o faults) {
	f.count += o.count
	f.first = append(f.first, o.first...)
	slices.SortStableFunc(f.first, func(a, b Fault) int { return cmp.Compare(a.Place.At, b.Place.At) })
	f.first = f.first[:min(len(f.first), maxExamples)]
}

func newRecorder(open bool, targets int, journals []*unique.Journal) *recorder {
	r := &recorder{latency: newHistogram(), spareLatency: newHistogram(), failures: map[failureKey]*Failure{}, targets: make([]Counts, targets)}
	if open {
		r.service, r.spareService = newHistogram(), newHistogram()
	}
	for _, j := range journals {
		r.lanes = append(r.lanes, j.Lane())
	}
	return r
}

// record puts d into h; what is longer than an hour counts as one.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	// It fails for values out of range only.
	_ = h.RecordValue(min(max(int64(d), 0), latencyMost))
}

// answeredLocked records how long a request took that brought IDs; r.mu is held.
func (r *recorder) answeredLocked(turn, sent, done time.Duration) {
	latency := done - min(turn, sent)
	record(r.latency, latency)
	if r.service != nil {
		record(r.service, done-sent)
	}
	r.slowest = max(r.slowest, latency)
	r.last = max(r.last, done)
}

// failedLocked records a request that failed; r.mu is held.
func (r *recorder) failedLocked(status int, code string, example func() string) {
	key := failureKey{status: status, code: code}
	f := r.failures[key]
	if f == nil {
		if len(r.failures) >= maxFailures {
			key = failureKey{code: "other"}
			f = r.failures[key]
		}
		if f == nil {
			f = &Failure{Status: key.status, Code: key.code, Example: example()}
			r.failures[key] = f
		}
	}
	f.Count++
}

// look moves what was recorded since the last look into the histograms given,
// which may be nil, and returns the counts so far.
func (r *recorder) look(latency, service *hdrhistogram.Histogram) (counts Counts, slowest, last time.Duration) {
	r.mu.Lock()
	r.latency, r.spareLatency = r.spareLatency, r.latency
	r.service, r.spareService = r.spareService, r.service
	for _, c := range r.targets {
		counts.add(c)
	}
	slowest, last = r.slowest, r.last
	r.mu.Unlock()
	move(latency, r.spareLatency)
	move(service, r.spareService)
	return counts, slowest, last
}

// move moves what was recorded in from into to. That is half a millisecond of work,
// and there are many recorders: between two of them others get the CPU.
func move(to, from *hdrhistogram.Histogram) {
	if from == nil {
		return
	}
	to.Merge(from)
	from.Reset()
	runtime.Gosched()
}
