package segment

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Sentinels of Trouble, beside ErrUnavailable (the tags could not be read yet), ErrRegressed, ErrBadRow,
// ErrRowMissing, ErrGuardDamaged and ErrGuardAway (it is required, and no range is fetched).
var (
	// ErrReading tells that the tags were not read yet: they are being read.
	ErrReading = errors.New("the tags are being read")
	// ErrStore tells that the tags can't be read, or that no range can be fetched: what is in memory is served.
	ErrStore = errors.New("the store gives no range")
	// ErrMark tells that a local mark can't be read or written: new ranges are refused.
	ErrMark = errors.New("the mark could not be recorded")
	// ErrUnguarded tells that ranges are used that the guard doesn't know of.
	ErrUnguarded = errors.New("ranges are fetched without the guard")
	// ErrTagsGone tells that the last pass has shown none of the tags. They are served from memory.
	ErrTagsGone = errors.New("the table shows none of the tags")
	// ErrTablesDiffer tells that the table isn't another daemon's.
	ErrTablesDiffer = errors.New("the table is not that of another daemon")
)

// Trouble is one thing that is wrong with the tags.
type Trouble struct {
	Is  error  // one of the sentinels
	Tag string // "" where it isn't one tag's alone
	Err error  // why
}

// namedTroubles is how many tags are named of those that share a trouble.
const namedTroubles = 10

// troubled are the tags that got into trouble, in this order, until they are asked and have none.
type troubled struct {
	asking sync.Mutex // one asks at a time; taken before a tag's mu, and that before mu
	mu     sync.Mutex
	tags   []*Tag // mu protects
}

func (l *troubled) add(t *Tag) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !t.listed {
		t.listed = true
		l.tags = append(l.tags, t)
	}
}

// ask takes the tags out and puts those back that are still in trouble. A tag that gets into one
// meanwhile puts itself back.
func (l *troubled) ask() (all []Trouble) {
	l.asking.Lock()
	defer l.asking.Unlock()
	l.mu.Lock()
	tags := l.tags
	l.tags = nil
	for _, t := range tags {
		t.listed = false
	}
	l.mu.Unlock()
	for _, t := range tags {
		found := t.troubles()
		all = append(all, found...)
		if len(found) > 0 {
			l.add(t)
		}
	}
	return all
}

// troubles returns what is wrong with t.
func (t *Tag) troubles() (all []Trouble) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return nil
	}
	b := t.buf
	if b != nil && b.failing != nil {
		all = append(all, Trouble{b.failing, t.name, b.err})
	}
	if t.behind && (b == nil || !errors.Is(b.failing, ErrRegressed)) {
		all = append(all, Trouble{ErrRegressed, t.name, fmt.Errorf("max_id of %q is below %d, which the table has shown before", t.name, t.shownLocked())})
	}
	if b != nil && b.turns >= tablesDiffer {
		all = append(all, Trouble{ErrTablesDiffer, t.name, fmt.Errorf("the table is behind the ranges of node %s", b.other)})
	}
	return all
}

// Troubles returns what is wrong now. What is no single tag's, such as a store that doesn't answer,
// is told once; of the others namedTroubles tags are named, and the rest is counted.
func (s *Service) Troubles() (all []Trouble) {
	s.tagsMu.Lock()
	loadErr := s.loadErr
	s.tagsMu.Unlock()
	seen := map[error]int{}
	tell := func(is error, tag string, err error) {
		if seen[is]++; seen[is] == 1 || tag != "" && seen[is] <= namedTroubles {
			all = append(all, Trouble{is, tag, err})
		}
	}
	switch {
	case s.Ready() != nil && loadErr == nil:
		tell(ErrReading, "", nil)
	case s.Ready() != nil:
		tell(ErrUnavailable, "", s.Ready())
		seen[ErrStore]++
	case errors.Is(loadErr, ErrMark):
		tell(ErrMark, "", loadErr)
	case loadErr != nil:
		tell(ErrStore, "", loadErr)
	}
	if n := s.allGone.Load(); n > 0 {
		tell(ErrTagsGone, "", fmt.Errorf("it had %d of them", n))
	}
	if s.guarded != nil {
		if err := s.guarded.without(); err != nil {
			tell(ErrUnguarded, "", err)
		}
	}
	for _, t := range s.troubled.ask() {
		if t.Is == ErrStore || t.Is == ErrMark || t.Is == ErrGuardAway { //nolint:errorlint // sentinels of our own
			t.Tag = ""
		}
		tell(t.Is, t.Tag, t.Err)
	}
	for is, n := range seen {
		if more := n - namedTroubles; more > 0 && slices.ContainsFunc(all, func(t Trouble) bool { return t.Is == is && t.Tag != "" }) { //nolint:errorlint // as above
			all = append(all, Trouble{is, "", fmt.Errorf("more such tags: %d", more)})
		}
	}
	return all
}

// troubleOf returns the sentinel of a fetch that failed.
func troubleOf(err error) error {
	for _, is := range []error{ErrMark, ErrRowMissing, ErrRegressed, ErrBadRow, ErrGuardDamaged, ErrGuardAway} {
		if errors.Is(err, is) {
			return is
		}
	}
	return ErrStore
}

// isRefusal reports whether the row is at fault, so that trying again is of no use before it is fixed.
func isRefusal(is error) bool {
	return errors.Is(is, ErrRegressed) || errors.Is(is, ErrBadRow) || errors.Is(is, ErrRowMissing)
}
