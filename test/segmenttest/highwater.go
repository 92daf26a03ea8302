package segmenttest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/leafd/leafd/segment"
)

// HighWater is segment.HighWater in memory. It outlives the services that use it, as
// the file in the data directory does.
type HighWater struct {
	Faults

	file   locked // protects all below
	stores map[string]*kept
	store  string // the one in use
}

// kept is what is kept for a store.
type kept struct {
	marks map[string]segment.Mark
	note  segment.Note
}

var _ segment.HighWater = (*HighWater)(nil)

// NewHighWater returns HighWater that remember nothing yet.
func NewHighWater() *HighWater { return &HighWater{stores: map[string]*kept{}} }

// Copy returns HighWater that remember what these do now.
func (m *HighWater) Copy() *HighWater {
	c := NewHighWater()
	m.file.do(func() {
		for name, k := range m.stores {
			c.stores[name] = &kept{maps.Clone(k.marks), k.note}
		}
	})
	return c
}

// call is a call on what is kept for the store in use.
func (m *HighWater) call(ctx context.Context, op Op, tags []string, effect func(k *kept)) error {
	return m.run(ctx, op, tags, func() (err error) {
		m.file.do(func() {
			if k := m.stores[m.store]; k != nil || op == OpUse {
				effect(k)
			} else {
				err = errors.New("segmenttest: marks of which store?")
			}
		})
		return err
	})
}

// Use implements segment.HighWater.
func (m *HighWater) Use(ctx context.Context, store string) (others int, err error) {
	err = m.call(ctx, OpUse, nil, func(*kept) {
		if m.store = store; m.stores[store] == nil {
			m.stores[store] = &kept{marks: map[string]segment.Mark{}}
		}
		for of, k := range m.stores {
			if of != store {
				others += len(k.marks)
			}
		}
	})
	return others, err
}

// Get implements segment.HighWater.
func (m *HighWater) Get(ctx context.Context, tags []string) (all []segment.Mark, err error) {
	err = m.call(ctx, OpGet, tags, func(k *kept) {
		for _, tag := range tags {
			if mark, there := k.marks[tag]; there {
				all = append(all, mark)
			}
		}
	})
	return all, err
}

// Page implements segment.HighWater.
func (m *HighWater) Page(ctx context.Context, after string, limit int, behind bool) (all []segment.Mark, err error) {
	err = m.call(ctx, OpPage, nil, func(k *kept) {
		for tag, mark := range k.marks {
			if tag > after && (mark.Behind || !behind) {
				all = append(all, mark)
			}
		}
	})
	slices.SortFunc(all, func(a, b segment.Mark) int { return strings.Compare(a.Tag, b.Tag) })
	return all[:min(limit, len(all))], err
}

// Raise implements segment.HighWater.
func (m *HighWater) Raise(ctx context.Context, marks []segment.Mark) error {
	return m.change(ctx, OpRaise, marks, func(was, mark segment.Mark) segment.Mark {
		mark.High, mark.Behind = max(mark.High, was.High), mark.Behind || was.Behind
		return mark
	})
}

// Raised implements segment.HighWater.
func (m *HighWater) Raised(ctx context.Context, marks []segment.Mark) error {
	return m.change(ctx, OpRaised, marks, func(was, mark segment.Mark) segment.Mark {
		was.Behind = was.Behind && was.High > mark.High
		return was
	})
}

// change has each of marks, those that are there for OpRaised, be what to returns.
func (m *HighWater) change(ctx context.Context, op Op, marks []segment.Mark, to func(was, mark segment.Mark) segment.Mark) error {
	var tags []string
	for _, mark := range marks {
		if tags = append(tags, mark.Tag); mark.High < 0 {
			return fmt.Errorf("segmenttest: mark of %q can't be %d", mark.Tag, mark.High)
		}
	}
	return m.call(ctx, op, tags, func(k *kept) {
		for _, mark := range marks {
			if was, there := k.marks[mark.Tag]; there || op == OpRaise {
				k.marks[mark.Tag] = to(was, mark)
			}
		}
	})
}

// Note implements segment.HighWater.
func (m *HighWater) Note(ctx context.Context) (n segment.Note, err error) {
	err = m.call(ctx, OpReadNote, nil, func(k *kept) { n = k.note })
	return n, err
}

// SetNote implements segment.HighWater.
func (m *HighWater) SetNote(ctx context.Context, n segment.Note) error {
	return m.call(ctx, OpSetNote, nil, func(k *kept) { k.note = n })
}

// Mark returns the mark of tag for the store in use; no fault touches it.
func (m *HighWater) Mark(tag string) (mark segment.Mark) {
	m.file.do(func() {
		if k := m.stores[m.store]; k != nil {
			mark = k.marks[tag]
		}
	})
	return mark
}

// Close implements segment.HighWater.
func (m *HighWater) Close() error { return nil }
