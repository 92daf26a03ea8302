package segment

import "time"

// stepPolicy finds the step of a tag's next fetch, as the Java Leaf does: from how
// long the last range lasted. The first two fetches take the table's own step:
// the second comes when a tenth of the first range is used, and so says nothing.
type stepPolicy struct {
	table int64 // the table's own step, as last seen
	grown int64 // the step beyond the table's own; 0 while that is followed
	known int   // ranges fetched, counted up to 2
	since time.Duration
}

// lasted is the time from the publication of the last range to asked.
func (p *stepPolicy) lasted(asked time.Duration) time.Duration {
	if p.known == 0 {
		return 0
	}
	return asked - p.since
}

// want is how many IDs to ask for: 1 stands for the table's own step, which the
// store never goes below.
func (p *stepPolicy) want(asked time.Duration, cfg *Config) int64 {
	step := max(p.table, p.grown, 1)
	if p.known >= 2 {
		limit := max(cfg.MaxStep, p.table)
		switch lasted := p.lasted(asked); {
		case lasted < cfg.ShortSegment && step > limit/2:
			step = limit // doubling could overflow
		case lasted < cfg.ShortSegment:
			step *= 2
		case lasted > cfg.LongSegment:
			step /= 2
		}
		step = min(step, limit)
	}
	if step <= p.table {
		return 1
	}
	return step
}

// note takes in the range that was published at now.
func (p *stepPolicy) note(r Range, now time.Duration) {
	p.table = r.Step
	p.grown = 0
	if size := r.Hi - r.Lo; size > r.Step {
		p.grown = size
	}
	p.known = min(p.known+1, 2)
	p.since = now
}

// current is the step in force.
func (p *stepPolicy) current() int64 { return max(p.table, p.grown) }
