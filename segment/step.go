package segment

import (
	"math"
	"time"
)

const (
	// fetchesAhead is how many times what waits a fetch asks for.
	fetchesAhead = 4
	// shortSegment and longSegment are the Java Leaf's, and the article's: a range that
	// lasted less than the one doubles the step, one above the other halves it.
	shortSegment = 15 * time.Minute
	longSegment  = 30 * time.Minute
)

// stepPolicy finds how many IDs a tag's next fetch asks for:
//
//  1. What the last range's time says, as in the Java Leaf: a step that lasted
//     less than shortSegment is doubled, one above longSegment halved,
//     never below the table's own. The second fetch follows the first at once,
//     when a tenth of its range is used, and so takes the step as it is.
//  2. At least fetchesAhead times what requests lack that wait when the fetch
//     begins. They have gathered while the fetch before was under way, so that this is
//     what several fetches' time uses: the range outlasts the next fetch, and from
//     then on the step grows faster than the demand.
//  3. No more than Config.MaxStep, or the table's own step where that is larger.
//  4. Asking alone uses no ID: a request that gave up, or was cancelled, no longer
//     counts, and what was fetched for it serves the next ones. One that can't be had
//     whole leaves what is there (Tag.await).
//  5. Config.Reserve is how many more steps each range has: it lasts as many times
//     longer, and the rules above go by one step of it. Where so many pass the end of
//     int64 it has one.
type stepPolicy struct {
	steps int64         // in a range: Config.Reserve and one
	table int64         // the table's own step, as last seen
	grown int64         // the step beyond the table's own; 0 while that is followed
	known int           // ranges fetched, counted up to 2
	since time.Duration // when the last range was published
}

// want is how many IDs to ask for while requests lack waiting: 1 stands for the
// table's own step, which the store never goes below.
func (p *stepPolicy) want(asked time.Duration, waiting int64, cfg *Config) int64 {
	limit := max(cfg.MaxStep, p.table)
	step := max(p.table, p.grown, 1)
	// A range lasts from its publication until the next one is asked for.
	switch lasted := (asked - p.since) / time.Duration(p.steps); {
	case p.known < 2:
	case lasted < shortSegment:
		step += min(step, limit-step)
	case lasted > longSegment:
		step /= 2
	}
	step = min(max(step, fetchesAhead*waiting), limit)
	switch whole := max(step, p.table); {
	case p.steps > 1 && whole <= math.MaxInt64/p.steps:
		return whole * p.steps
	case step <= p.table:
		return 1
	default:
		return step
	}
}

// note takes in the range that was published at now.
func (p *stepPolicy) note(r Range, now time.Duration) {
	p.table = r.Step
	p.grown = 0
	if size := (r.Hi - r.Lo) / p.steps; size > r.Step {
		p.grown = size
	}
	p.known = min(p.known+1, 2)
	p.since = now
}

// current is the step in force.
func (p *stepPolicy) current() int64 { return max(p.table, p.grown) }
