// Package doctor finds out whether a daemon could start here and would keep working,
// without starting it: it runs checks side by side, each within a bound, and returns
// what they found and what to do about it.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Status is the outcome of a check.
type Status string

// The statuses of a Result.
const (
	OK   Status = "ok"
	Warn Status = "warn" // a daemon starts, and an operator should see to it
	Fail Status = "fail" // a daemon doesn't start, or won't do what it is for
	Skip Status = "skip" // it failed because another check did, which Found names
)

// Result is one line of a report.
type Result struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Do     string `json:"do,omitempty"` // what to do about it; empty where there is nothing to do
	Err    error  `json:"-"`            // of a Fail, what was found as an error
}

// check looks at one thing, and reports one Result or several.
type check struct {
	wanted bool // the settings call for it
	name   string
	// limit is how long it may take. What it has reported by then stands.
	limit time.Duration
	run   func(ctx context.Context, r *report)
}

// report takes the results of one check. What comes after the check's limit is
// left out.
type report struct {
	mu      sync.Mutex
	results []Result // mu protects
	closed  bool     // mu protects
}

// OK reports what is as it should be.
func (r *report) OK(check, format string, args ...any) {
	r.add(Result{Check: check, Status: OK, Found: fmt.Sprintf(format, args...)})
}

// Warn reports what an operator should see to.
func (r *report) Warn(check, found, do string) {
	r.add(Result{Check: check, Status: Warn, Found: found, Do: do})
}

// Fail reports err, which keeps a daemon from its work.
func (r *report) Fail(check string, err error, do string) {
	r.add(Result{Check: check, Status: Fail, Found: err.Error(), Do: do, Err: err})
}

func (r *report) add(result Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.results = append(r.results, result)
	}
}

// close ends the report and returns it.
func (r *report) close() []Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return r.results
}

// run runs all checks at once and returns their results in the order of checks. It
// keeps:
//
//  1. It returns when the longest limit has passed at the latest, regardless of what
//     hangs: a check that a dead disk holds in the kernel is left behind.
//  2. A check that ran out of time is a Fail, even if it reported nothing wrong.
//  3. No check changes another's results, unless both fail of one cause.
//  4. Of checks that fail of one cause the first alone is a Fail. The others are Skips that
//     name it: once put right, they may have a word of their own.
func run(ctx context.Context, checks []check) []Result {
	all := make([][]Result, len(checks))
	var running sync.WaitGroup
	for i, c := range checks {
		running.Go(func() { all[i] = c.results(ctx) })
	}
	running.Wait()
	var results []Result
	for _, of := range all {
		results = append(results, of...)
	}
	skipFollowing(results)
	return results
}

func (c check) results(ctx context.Context) []Result {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	r := &report{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.run(ctx, r)
	}()
	select {
	case <-ended:
		return r.close()
	case <-ctx.Done():
	}
	// Its context has ended too: what it reports of that says more than we could.
	grace := time.NewTimer(endGrace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
	}
	results := r.close()
	if !slices.ContainsFunc(results, func(r Result) bool { return r.Status == Fail }) {
		results = append(results, Result{
			Check: c.name, Status: Fail, Found: fmt.Sprintf("not finished within %s", c.limit), Err: context.DeadlineExceeded,
			Do: "see what hangs there: a dead mount, or a server that takes connections and never answers",
		})
	}
	return results
}

// endGrace is what a check has after its context's end.
const endGrace = 250 * time.Millisecond
