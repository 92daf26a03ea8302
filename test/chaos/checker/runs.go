package checker

import (
	"cmp"
	"slices"
	"sort"

	"github.com/leafd/leafd/test/chaos/history"
)

// set is all IDs of a stream that were seen, exactly. It keeps:
//
//  1. every ID added and swept lies in one run of one level; two runs never
//     overlap, in one level or in two.
//  2. the runs of a level are sorted, and no two of them touch: they are joined.
//     So a millisecond's IDs of one worker, or a whole range of a tag, cost 16
//     bytes however many answers they came in.
//  3. each level has less than half the runs of the one before it, so there are
//     few: an ID is looked for in all of them by halving.
type set struct {
	pending []history.Run
	levels  [][]history.Run
	ids     int64
}

func (s *set) add(r history.Run) { s.pending = append(s.pending, r) }

// sweep takes in what was added since, and returns the IDs of it that were there
// before; the lowest first, at most most of them.
func (s *set) sweep(most int) []int64 {
	if len(s.pending) == 0 {
		return nil
	}
	var twice []int64
	fresh := s.pending
	s.pending = nil
	for _, r := range fresh {
		s.ids += r.N
	}
	slices.SortFunc(fresh, func(a, b history.Run) int { return cmp.Compare(a.Lo, b.Lo) })
	for i := 1; i < len(fresh); i++ {
		if fresh[i].Lo <= fresh[i-1].Last() {
			twice = append(twice, fresh[i].Lo)
			fresh[i-1].N = max(fresh[i-1].N, fresh[i].Last()-fresh[i-1].Lo+1)
			fresh = slices.Delete(fresh, i, i+1)
			i--
		}
	}
	for _, level := range s.levels {
		for _, r := range fresh {
			if id, ok := overlap(level, r); ok {
				twice = append(twice, id)
			}
		}
	}
	if len(twice) > 0 {
		slices.Sort(twice)
		return twice[:min(most, len(twice))] // the run of it all ends here
	}
	fresh = join(fresh)
	for len(s.levels) > 0 && 2*len(fresh) >= len(s.levels[len(s.levels)-1]) {
		last := len(s.levels) - 1
		fresh = merge(s.levels[last], fresh)
		s.levels = s.levels[:last]
	}
	s.levels = append(s.levels, fresh)
	return nil
}

// overlap returns the first ID of r that lies in a run of level.
func overlap(level []history.Run, r history.Run) (int64, bool) {
	i := sort.Search(len(level), func(i int) bool { return level[i].Last() >= r.Lo })
	if i == len(level) || level[i].Lo > r.Last() {
		return 0, false
	}
	return max(level[i].Lo, r.Lo), true
}

// join joins neighbours that touch, in place.
func join(runs []history.Run) []history.Run {
	out := runs[:0]
	for _, r := range runs {
		if n := len(out); n > 0 && out[n-1].Lo+out[n-1].N == r.Lo {
			out[n-1].N += r.N
			continue
		}
		out = append(out, r)
	}
	return out
}

// merge returns the runs of both, sorted and joined.
func merge(a, b []history.Run) []history.Run {
	out := make([]history.Run, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		var r history.Run
		if len(b) == 0 || len(a) > 0 && a[0].Lo < b[0].Lo {
			r, a = a[0], a[1:]
		} else {
			r, b = b[0], b[1:]
		}
		if n := len(out); n > 0 && out[n-1].Lo+out[n-1].N == r.Lo {
			out[n-1].N += r.N
			continue
		}
		out = append(out, r)
	}
	return out
}
