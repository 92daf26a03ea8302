package segment

import (
	"errors"
	"fmt"
	"time"
)

// Sentinels of Trouble, beside ErrUnavailable (the store was not reached yet), ErrStore, ErrGuardAway (it is required, and
// no range is fetched), and those of single tags: ErrBadRow, ErrLocked, ErrGuardRefused, ErrRowMissing.
var (
	// ErrReading tells that the store was not asked yet.
	ErrReading = errors.New("the store is being asked")
	// ErrMark tells that a mark on this disk can't be read or written: no range is fetched.
	ErrMark = errors.New("the mark could not be recorded")
	// ErrUnguarded tells that ranges are used that the guard doesn't know of.
	ErrUnguarded = errors.New("ranges are fetched without the guard")
	// ErrRowsMissing tells that the table shows no row of most tags that were looked at last.
	ErrRowsMissing = errors.New("the table shows most tags no more")
	// ErrForeign tells that something outside of the guard takes ranges of a tag.
	ErrForeign = errors.New("ranges are taken that no high mark covers")
	// ErrFetch tells that a fetch failed by an error that nothing here has a name for.
	ErrFetch = errors.New("a fetch failed")
)

// foreignWithin is the time within which two ranges that were taken from outside are a trouble.
const foreignWithin = time.Hour

// Trouble is one thing that is wrong with the tags.
type Trouble struct {
	Is  error  // one of the sentinels
	Tag string // "" where it isn't one tag's alone
	Err error  // why
}

// namedTroubles is how many tags are named of those that share a trouble.
const namedTroubles = 10

// Troubles returns what is wrong now. What is no single tag's, such as a store that doesn't answer,
// is told once; of the others namedTroubles tags are named, and the rest is counted.
func (s *Service) Troubles() (all []Trouble) {
	ready := s.Ready()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range []struct {
		is, err error
		holds   bool
	}{
		{ErrMark, s.storeErr, errors.Is(s.storeErr, ErrMark)},
		{ErrMark, s.outage.err, errors.Is(s.outage.err, ErrMark)},
		{ErrReading, ready, ready != nil && s.storeErr == nil && s.outage.last == nil},
		{ErrUnavailable, ready, ready != nil && !errors.Is(ready, ErrMark) && (s.storeErr != nil || s.outage.last != nil)},
		{ErrStore, s.storeWhy(), ready == nil && s.storeWhy() != nil && !errors.Is(s.storeWhy(), ErrMark)},
		{ErrGuardAway, s.outageLocked(), errors.Is(s.outageLocked(), ErrGuardAway)},
		{ErrUnguarded, s.guard.withoutWhy(), s.guard.withoutWhy() != nil},
		{ErrRowsMissing, ErrRowMissing, s.lacking},
	} {
		if t.holds {
			all = append(all, Trouble{Is: t.is, Err: t.err})
		}
	}
	seen := map[error]int{}
	for t := range s.troubled {
		is, err := t.troubleLocked()
		if is == nil {
			delete(s.troubled, t)
			continue
		}
		switch seen[is]++; {
		case is == ErrStore: //nolint:errorlint // no tag's alone
			if seen[is] == 1 && s.storeWhy() == nil {
				all = append(all, Trouble{is, "", err})
			}
		case seen[is] <= namedTroubles:
			all = append(all, Trouble{is, t.name, err})
		}
	}
	for is, n := range seen {
		if more := n - namedTroubles; more > 0 && is != ErrStore { //nolint:errorlint // see above
			all = append(all, Trouble{is, "", fmt.Errorf("more such tags: %d", more)})
		}
	}
	return all
}

// storeWhy returns why the store gives no range to any tag, as far as is known; nil where it does. Service.mu is
// held.
func (s *Service) storeWhy() error {
	if o := &s.outage; o.err != nil || errors.Is(o.last, ErrStore) {
		return o.last
	}
	return nil
}

// troubleLocked returns what is wrong with t; nil where nothing is.
func (t *Tag) troubleLocked() (is, err error) {
	switch {
	case t.gone:
		return nil, nil
	case t.missing != nil:
		return ErrRowMissing, t.missing
	case t.err != nil && (t.svc.storeWhy() == nil || isOfRow(t.err)): // else it is told once
		if errors.Is(t.err, ErrStore) {
			return ErrStore, t.err
		}
		return reasonOf(t.err, Reason{Is: ErrFetch}).Is, t.err
	case t.foreigns > 1 && t.svc.clock.Mono()-t.foreign[0] < foreignWithin:
		return ErrForeign, fmt.Errorf("%w: of tag %q, %d so far", ErrForeign, t.name, t.foreigns)
	}
	return nil, nil
}

// Reason is an error of a fetch that has a name in JSON and metrics.
type Reason struct {
	Name string
	Is   error
}

// Reasons returns all errors of a fetch that have a name.
func Reasons() []Reason {
	return []Reason{
		{"mark", ErrMark},
		{"no_row", ErrRowMissing},
		{"bad_row", ErrBadRow},
		{"locked", ErrLocked},
		{"guard_refused", ErrGuardRefused},
		{"guard_conflict", ErrGuardConflict},
		{"guard_away", ErrGuardAway},
		{"read_only", ErrReadOnly},
		{"store", ErrStore},
	}
}

// reasonOf returns the first of Reasons that err is, and other where it is none.
func reasonOf(err error, other Reason) Reason {
	for _, r := range Reasons() {
		if errors.Is(err, r.Is) {
			return r
		}
	}
	return other
}

// ReasonOf names err without showing it, by the first of Reasons that it is, or as other.
func ReasonOf(err error, other string) string { return reasonOf(err, Reason{Name: other}).Name }
