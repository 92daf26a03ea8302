package segment

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// How the rate of a tag is found.
const (
	// sampleEvery is how often the tags in use are looked at. With very many
	// of them each look comes later, by samplePerTag for each: looking takes a
	// fraction of a microsecond, so that it stays below 1 % of a processor.
	sampleEvery  = time.Second
	samplePerTag = 50 * time.Microsecond
	// rateOver is the time constant of the average: what was issued that long
	// ago counts 1/e of what is issued now.
	rateOver = 30 * time.Second
	// rateLeast is what counts as a rate, in IDs a second. An average never
	// comes down to 0 by itself.
	rateLeast = 0.001
)

// counters are what is counted under a tag's name while the service lives, through
// any number of removals and returns of its row. It keeps:
//
//  1. The hot path counts nothing. What was handed out of a range stands in
//     the range: how far it is used. A range that is replaced has no offset
//     left, and one that is dropped is closed first, so that both are added
//     up exactly once, whole.
//  2. An ID counts once it is taken, also for a batch that then failed: no other
//     caller gets it. So the count never falls; to a collector that would be a restart.
//
// It belongs to the tag's current Tag; the mu of that Tag protects the plain fields. A Tag
// that is gone may still be looked at: what that needs is atomic.
type counters struct {
	done atomic.Int64 // IDs of the ranges before the current one

	rate      float64 // IDs a second
	sampled   int64   // IDs handed out at the last look
	sampledAt time.Duration
	looks     uint8 // counted up to 2; a rate takes two
}

// takenLocked is how many IDs were taken under the name of a tag that has counters.
func (t *Tag) takenLocked() int64 {
	n := t.counters.done.Load()
	if s := t.live.Load(); s != nil {
		n += s.taken()
	}
	return n
}

// replaceLocked makes next the current range. The one before is exhausted.
func (t *Tag) replaceLocked(next *span) {
	if s := t.live.Load(); s != nil {
		t.counters.done.Add(s.taken())
	}
	t.live.Store(next)
}

// sample takes a look at how far the tag has come, and reports whether it is
// still there.
func (t *Tag) sample(now time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return false
	}
	t.counters.look(t.takenLocked(), now)
	return true
}

// look moves the average on to now, when taken IDs had been handed out.
func (c *counters) look(taken int64, now time.Duration) {
	past := now - c.sampledAt
	if c.looks > 0 && past <= 0 {
		return
	}
	present := float64(max(taken-c.sampled, 0)) / past.Seconds()
	switch c.looks {
	case 0:
		c.looks = 1 // when these were handed out is not known
	case 1:
		c.looks = 2
		c.rate = present
	default:
		c.rate += (present - c.rate) * -math.Expm1(-past.Seconds()/rateOver.Seconds())
	}
	if c.rate < rateLeast {
		c.rate = 0
	}
	c.sampled, c.sampledAt = taken, now
}

// inUse is the list of tags that were ever used and are still there, so that
// nothing has to look through those that never were.
type inUse struct {
	mu   sync.Mutex
	tags []*Tag // mu protects; what lies below its length is never written again
}

func (u *inUse) add(t *Tag) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tags = append(u.tags, t)
}

// all returns the list. It may have tags that are gone.
func (u *inUse) all() []*Tag {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.tags
}

// forget takes gone out of the list. It asks no tag: a tag's lock is taken before
// that of the list.
func (u *inUse) forget(gone map[*Tag]bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tags = slices.DeleteFunc(slices.Clone(u.tags), func(t *Tag) bool { return gone[t] })
}

// keepSampled looks at the tags in use again and again until ctx is done.
func (s *Service) keepSampled(ctx context.Context) {
	for used := 0; s.clock.Sleep(ctx, sampleEvery+time.Duration(used)*samplePerTag) == nil; {
		used = s.sampleAll()
	}
}

// sampleAll looks at each tag in use, and returns how many there are.
func (s *Service) sampleAll() int {
	tags := s.inUse.all()
	gone := make(map[*Tag]bool)
	for _, t := range tags {
		if !t.sample(s.clock.Mono()) {
			gone[t] = true
		}
	}
	if len(gone) > 0 {
		s.inUse.forget(gone)
	}
	return len(tags)
}
