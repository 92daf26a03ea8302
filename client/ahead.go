package client

import (
	"math"
	"time"
)

// pace finds how many IDs last for a time at the rate at which they are used.
type pace struct {
	ahead  time.Duration
	most   int           // that goal may be
	goal   int           // IDs that last for ahead, and some to spare; 0: none was used yet
	begun  time.Duration // when the rate began to be measured; client's monotonic time
	before int64         // IDs used until then
}

const (
	// longestMeasure is the longest time over which a rate is measured.
	longestMeasure = 10 * time.Second
	// longestBurst bounds the time that a burst is taken to last: a few IDs that were used at once are no rate.
	longestBurst = time.Second
	// spare is for what is used of a batch before the fetcher looks again, and for a rate that isn't even.
	spare = 1.125
)

// look moves the goal when so many IDs have been used. A rate that rises counts at once, one that falls
// when it was measured for long enough, and halves the goal at most.
func (p *pace) look(now time.Duration, used int64) {
	took := now - p.begun
	rate := float64(used-p.before) / max(took, min(longestBurst, p.ahead/4)).Seconds()
	goal := int(min(math.Ceil(spare*rate*p.ahead.Seconds()), float64(p.most)))
	if took < min(longestMeasure, p.ahead) {
		p.goal = max(p.goal, goal)
		return
	}
	p.goal = max(goal, p.goal/2, int(min(used, 1)))
	p.begun, p.before = now, used
}

// wanted returns how many IDs to fetch now; 0: none. They are asked for when those that are there last no
// longer than Config.Ahead, and are as many again, or what is owed to callers that wait.
func (s *Source) wanted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	owed := 0
	for _, w := range s.waiters {
		owed += len(w.dst)
	}
	ahead := s.aheadLocked()
	used := s.stats.Fetched - s.stats.Dropped - int64(ahead)
	s.pace.look(s.client.mono(), used)
	if s.closed || owed == 0 && (ahead > s.pace.goal || used == 0) { // nothing was used: no caller waits any more
		return 0
	}
	return min(max(s.batchLocked(), owed), s.limit)
}

// batchLocked returns the size of the next batch.
func (s *Source) batchLocked() int {
	if s.pace.goal == 0 {
		return min(firstSize, s.limit)
	}
	return min(s.pace.goal, s.limit)
}

// aheadLocked returns how many IDs were fetched, and neither handed out nor dropped.
func (s *Source) aheadLocked() int {
	n := s.current.Load().left()
	for _, b := range s.queued {
		n += b.left()
	}
	return n
}
