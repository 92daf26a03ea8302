package loadtest

import (
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// NewHistogram returns one of latencies in nanoseconds, up to an hour, with three digits.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(128, int64(time.Hour), 3)
}

// Counts are sums over requests.
type Counts struct {
	// Sent is how many requests were sent, or could not be because there was no connection.
	Sent int64 `json:"requests"`
	// Answered is how many brought IDs.
	Answered int64 `json:"answered"`
	// Failed is how many requests were refused, failed or brought anything else.
	Failed int64 `json:"failed"`
	// Unfinished is how many had no answer yet when the run was ended early.
	Unfinished int64 `json:"unfinished"`
	// IDs is how many came.
	IDs int64 `json:"ids"`
	// Unknown is how many of the IDs asked for may have been used up without
	// having come whole: nothing is known of them.
	Unknown int64 `json:"unknown_ids"`
}

// plus adds sign times o.
func (c *Counts) plus(o Counts, sign int64) {
	c.Sent += sign * o.Sent
	c.Answered += sign * o.Answered
	c.Failed += sign * o.Failed
	c.Unfinished += sign * o.Unfinished
	c.IDs += sign * o.IDs
	c.Unknown += sign * o.Unknown
}

// Place is where an ID came from: the answer to a client's request.
type Place struct {
	Client  int           `json:"client"`  // its number
	Request int64         `json:"request"` // number of the request among those of its client
	At      time.Duration `json:"at_ns"`   // when the answer came, since the start
}

// String returns p for people.
func (p Place) String() string {
	return fmt.Sprintf("client %d, request %d, at %.6f s", p.Client, p.Request, p.At.Seconds())
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

// Fault is an answer that broke a promise.
type Fault struct {
	Place
	What string `json:"what"`
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

// recorder takes the outcomes of all clients.
type recorder struct {
	mu       sync.Mutex
	interval *hdrhistogram.Histogram // mu protects; latencies since the last look
	service  *hdrhistogram.Histogram // mu protects; from the sending
	targets  []Counts                // mu protects; by target
	last     time.Duration           // mu protects; when the last IDs came
	failures map[failureKey]*Failure // mu protects
	fell     int64                   // mu protects; IDs that didn't grow
	fellAt   []Fault                 // mu protects; the first of them
	wrong    int64                   // mu protects; answers that were not the IDs asked for

	// Of the goroutine that looks.
	spare *hdrhistogram.Histogram // empty
	all   *hdrhistogram.Histogram // latencies up to the last look
}

func newRecorder(targets int) *recorder {
	return &recorder{
		interval: NewHistogram(), service: NewHistogram(), spare: NewHistogram(), all: NewHistogram(),
		failures: map[failureKey]*Failure{}, targets: make([]Counts, targets),
	}
}

// record puts d into h; what is longer than an hour counts as one.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	// It fails for values out of range only.
	_ = h.RecordValue(int64(min(max(d, 0), time.Hour)))
}

// answeredLocked records how long a request took that brought IDs; r.mu is held.
func (r *recorder) answeredLocked(turn, sent, done time.Duration) {
	record(r.interval, done-min(turn, sent))
	record(r.service, done-sent)
	r.last = max(r.last, done)
}

// failedLocked records a request that failed; r.mu is held.
func (r *recorder) failedLocked(status int, code string, example func() string) {
	key := failureKey{status: status, code: code}
	if r.failures[key] == nil && len(r.failures) >= maxFailures {
		key = failureKey{code: "other"}
	}
	f := r.failures[key]
	if f == nil {
		f = &Failure{Status: key.status, Code: key.code, Example: example()}
		r.failures[key] = f
	}
	f.Count++
}

// look returns the counts so far, and the latencies since the last look.
func (r *recorder) look() (Counts, Latency) {
	var counts Counts
	r.mu.Lock()
	r.interval, r.spare = r.spare, r.interval
	for _, c := range r.targets {
		counts.plus(c, 1)
	}
	r.mu.Unlock()
	latency := LatencyOf(r.spare)
	r.all.Merge(r.spare)
	r.spare.Reset()
	return counts, latency
}
