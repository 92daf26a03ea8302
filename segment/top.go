package segment

import (
	"cmp"
	"slices"
	"strings"
)

// Top returns the state of the n tags with the largest rates, the largest first,
// all if there are fewer. Those of one rate are ordered by Issued, then by name.
// It builds no more than 2n states at a time, however many tags there are.
func (s *Service) Top(n int) []Status {
	n = min(n, s.Len())
	if n <= 0 {
		return nil
	}
	first := top{n: n}
	for st := range s.Used {
		first.add(st)
	}
	if used := first.list(); len(used) == n {
		return used
	}
	for _, t := range *s.tags.Load() {
		if first.mayTake(t.name) {
			first.addUnused(t)
		}
	}
	return first.list()
}

// top keeps the first n of many states.
type top struct {
	n    int
	all  []Status
	full bool // all[:n] were the first n when they were last put in order
}

func (p *top) add(st Status) {
	if p.full && compareRates(st, p.all[p.n-1]) > 0 {
		return
	}
	p.all = append(p.all, st)
	if len(p.all) >= 2*p.n {
		p.list()
	}
}

// addUnused is add for a tag that Used leaves out.
func (p *top) addUnused(t *Tag) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counters == nil {
		p.add(t.statusLocked())
	}
}

// mayTake tells whether a tag of this name that was never used could be among
// the first.
func (p *top) mayTake(name string) bool {
	return !p.full || compareRates(Status{Tag: name}, p.all[p.n-1]) < 0
}

// list puts the states in order, and drops all but the first n.
func (p *top) list() []Status {
	slices.SortFunc(p.all, compareRates)
	if len(p.all) >= p.n {
		p.all, p.full = p.all[:p.n], true
	}
	return p.all
}

// compareRates puts the larger rate first.
func compareRates(a, b Status) int {
	return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(b.Issued, a.Issued), strings.Compare(a.Tag, b.Tag))
}
