// Package checker finds IDs that were issued twice. It imports nothing that leafd is made of, so
// that it doesn't repeat a mistake made there.
package checker

import (
	"cmp"
	"fmt"
	"slices"
)

// Checker compares all IDs of each stream. It is not safe for concurrent use. The zero Checker is ready.
type Checker struct {
	streams map[string]*stream
	ids     int64
}

// stream is what was seen of one: old is sorted, without overlaps, and joined where runs touch, so
// that a range of a tag costs one run however many answers it came in.
type stream struct{ old, fresh []run }

// run is the IDs lo to hi, all of process by.
type run struct {
	lo, hi int64
	by     int
}

// TwiceError is returned for an ID that was issued twice.
type TwiceError struct {
	Stream string
	ID     int64
	By     [2]int // the processes
}

func (e *TwiceError) Error() string {
	return fmt.Sprintf("%s: %d was issued twice, by processes %d and %d", e.Stream, e.ID, e.By[0], e.By[1])
}

// Add notes the IDs of an answer of process by.
func (c *Checker) Add(name string, ids []int64, by int) {
	if c.streams == nil {
		c.streams = map[string]*stream{}
	}
	s := c.streams[name]
	if s == nil {
		s = &stream{}
		c.streams[name] = s
	}
	for i, id := range ids {
		if n := len(s.fresh); i > 0 && s.fresh[n-1].hi+1 == id {
			s.fresh[n-1].hi = id
			continue
		}
		s.fresh = append(s.fresh, run{id, id, by})
	}
	c.ids += int64(len(ids))
}

// IDs returns how many were added.
func (c *Checker) IDs() int64 { return c.ids }

// Compare compares what was added since the last call with all that was added before. It returns a *TwiceError if an ID
// was issued twice.
func (c *Checker) Compare() error {
	for name, s := range c.streams {
		slices.SortFunc(s.fresh, func(a, b run) int { return cmp.Compare(a.lo, b.lo) })
		all := make([]run, 0, len(s.old)+len(s.fresh))
		for a, b := s.old, s.fresh; len(a)+len(b) > 0; {
			from := &b
			if len(b) == 0 || len(a) > 0 && a[0].lo < b[0].lo {
				from = &a
			}
			next := (*from)[0]
			*from = (*from)[1:]
			switch last := len(all) - 1; {
			case last >= 0 && next.lo <= all[last].hi:
				return &TwiceError{name, next.lo, [2]int{all[last].by, next.by}}
			case last >= 0 && next.lo == all[last].hi+1 && next.by == all[last].by:
				all[last].hi = next.hi
			default:
				all = append(all, next)
			}
		}
		s.old, s.fresh = all, s.fresh[:0]
	}
	return nil
}
