package segment

import "time"

const (
	// fetchesAhead is how many times what waits a fetch asks for.
	fetchesAhead = 4
	// shortSegment and longSegment are the Java Leaf's, and the article's: a range that
	// lasted less than the one doubles the step, one above the other halves it.
	shortSegment = 15 * time.Minute
	longSegment  = 30 * time.Minute
	// usualStep bounds the step of a tag that uses less than it in longSegment, and mostStep any.
	usualStep, mostStep = 1_000_000, 100_000_000
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
//  3. No more than usualStep, or what longSegment uses at the rate at which IDs were taken since the last range was
//     published where that is larger, mostStep at most; or the table's own step where that is larger.
//  4. Asking alone uses no ID: a request that gave up, or was cancelled, no longer
//     counts, and what was fetched for it serves the next ones. One that can't be had
//     whole leaves what is there (Tag.await).
type stepPolicy struct {
	table int64  // the table's own step, as last seen
	grown int64  // the step beyond the table's own; 0 while that is followed
	known int    // ranges fetched, counted up to 2
	size  int64  // of the last range
	since moment // when it was published
}

// moment is a time, and how many IDs were taken by then.
type moment struct {
	at    time.Duration
	taken int64
}

// want returns how many IDs to ask for while requests lack waiting. asked is when the range was first wanted.
func (p *stepPolicy) want(asked moment, waiting int64) int64 {
	step, limit := max(p.table, p.grown, 1), max(usualStep, p.table)
	// A range lasts from its publication until the next one is asked for.
	if lasted := asked.at - p.since.at; p.known == 2 {
		used := float64(asked.taken-p.since.taken) / max(lasted, time.Millisecond).Seconds() * longSegment.Seconds()
		limit = max(limit, int64(min(used, mostStep)))
		switch {
		case lasted < shortSegment:
			step += min(step, max(limit-step, 0))
		case lasted > longSegment:
			step /= 2
		}
	}
	return max(p.table, min(max(step, fetchesAhead*waiting), limit))
}

// note takes in the range that was published at now, from a row with the step table.
func (p *stepPolicy) note(r Range, table int64, now moment) {
	p.table, p.grown, p.size, p.since = table, 0, r.Hi-r.Lo, now
	if p.size > table {
		p.grown = p.size
	}
	p.known = min(p.known+1, 2)
}

// current returns the step in force.
func (p *stepPolicy) current() int64 { return max(p.table, p.grown) }
