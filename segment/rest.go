package segment

import (
	"context"
	"fmt"
	"maps"
)

// Rest is what was left of a tag's ranges when a service ended.
type Rest struct {
	Tag    string     `json:"tag"`
	Step   int64      `json:"step"`   // the table's own, as last seen
	Ranges [][2]int64 `json:"ranges"` // [lo, hi), in the order of use
}

// Keep returns what is left of all ranges, which this service hands out no more.
// It is called once Run has returned. What holds of a rest:
//
//  1. A range is closed before Keep tells what is left of it: no ID is both
//     handed out and in a rest. A range that was fetched but never published
//     is in none.
//  2. Adopt is given what one Keep returned, and no Adopt is given it again: its
//     caller answers for that. So a rest is ours as it was when it was fetched: marked
//     (marked-before-use) and above all that others had (never-below-seen), and what others
//     have taken since is above it.
//  3. A rest is used before anything is fetched, and takes neither Store nor
//     HighWater. It counts as seen, so that a later range begins above it: the IDs
//     of a tag grow. For that a rest that comes after a range was fetched is
//     burned. Config.Held lets fetches wait for it.
func (s *Service) Keep() []Rest {
	var all []Rest
	for _, t := range s.inUse.all() {
		if r := t.keep(); len(r.Ranges) > 0 {
			all = append(all, r)
		}
	}
	return all
}

func (t *Tag) keep() Rest {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Rest{Tag: t.name, Step: t.step, Ranges: t.endLocked()}
}

// endLocked takes all ranges away and returns what is left of them.
func (t *Tag) endLocked() (left [][2]int64) {
	if s := t.live.Swap(nil); s != nil {
		used := s.close() // a request may have loaded it just before
		t.counters.done.Add(used)
		if s.lo+used < s.hi() {
			left = append(left, [2]int64{s.lo + used, s.hi()})
		}
	}
	if b := t.buf; b != nil && b.next != nil {
		left = append(left, [2]int64{b.next.lo, b.next.hi()})
		b.next = nil
	}
	return left
}

// Adopt serves what a Keep has returned, also while the tags were not read
// yet. A tag without a row is served until a pass over the table has found that out.
// It waits for a pass that is under way, or ctx. A range that is none is
// an error before any rest is served.
func (s *Service) Adopt(ctx context.Context, rests []Rest) error {
	for _, r := range rests {
		for _, lohi := range r.Ranges {
			if lohi[0] < 0 || lohi[1] <= lohi[0] {
				return fmt.Errorf("%w: the rest of tag %q has the range %v", ErrBadRow, r.Tag, lohi)
			}
		}
	}
	select {
	case s.loading <- struct{}{}:
		defer func() { <-s.loading }()
	case <-ctx.Done():
		return fmt.Errorf("taking over what is left of ranges: %w", ctx.Err())
	}
	s.tagsMu.Lock()
	defer s.tagsMu.Unlock()
	tags := make(map[string]*Tag)
	if p := s.tags.Load(); p != nil {
		tags = maps.Clone(*p)
	}
	for _, r := range rests {
		t := tags[r.Tag]
		if t == nil {
			t = &Tag{svc: s, name: r.Tag, step: r.Step}
			s.returnLocked(t)
			tags[r.Tag] = t
		}
		t.adopt(r)
	}
	s.tags.Store(&tags)
	return nil
}

func (t *Tag) adopt(r Rest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live.Load() != nil {
		return
	}
	b := t.bufferLocked()
	for _, lohi := range r.Ranges {
		b.high = max(b.high, lohi[1])
		t.takeInLocked(b, lohi[0], lohi[1])
	}
	if b.state != stateRunning { // else what it brings takes the place of the second range
		b.state = stateIdle
	}
	b.wakeLocked()
}

// Release ends Config.Held: from now on ranges are fetched.
func (s *Service) Release() { s.queue.release() }
