package segmenttest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/leafd/leafd/segment"
)

// Page implements segment.Admin.
func (s *Store) Page(ctx context.Context, after, part string, limit int) (rows []segment.Row, err error) {
	t := s.at.Load()
	err = s.call(ctx, t, OpPage, nil, func() error {
		t.do(func() {
			for tag, row := range t.rows {
				if tag > after && strings.Contains(lower(tag), lower(part)) {
					rows = append(rows, row)
				}
			}
		})
		return nil
	})
	slices.SortFunc(rows, func(a, b segment.Row) int { return strings.Compare(a.Tag, b.Tag) })
	return rows[:min(limit, len(rows))], err
}

// lower is s with its ASCII letters small.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// Get implements segment.Admin.
func (s *Store) Get(ctx context.Context, tag string) (r segment.Row, err error) {
	t := s.at.Load()
	err = s.call(ctx, t, OpGet, []string{tag}, func() error {
		var there bool
		if r, there = t.Row(tag); !there {
			return fmt.Errorf("%w: %q", segment.ErrUnknownTag, tag)
		}
		return nil
	})
	return r, err
}

// Create implements segment.Admin. The row's UpdateTime is kept as it is: there
// is no clock here.
func (s *Store) Create(ctx context.Context, r segment.Row, before func() error) error {
	var told func(segment.Row) error
	if before != nil {
		told = func(segment.Row) error { return before() }
	}
	_, err := s.change(ctx, OpCreate, r.Tag, &r, told, func(_ segment.Row, there bool) error {
		if there {
			return fmt.Errorf("%w: %q; update it instead", segment.ErrTagExists, r.Tag)
		}
		return segment.CheckRow(r)
	})
	return err
}

// Update implements segment.Admin.
func (s *Store) Update(ctx context.Context, tag string, c segment.Change, before func(segment.Row) error) (segment.Row, error) {
	var to segment.Row
	return s.change(ctx, OpUpdate, tag, &to, before, func(was segment.Row, there bool) error {
		switch to = was.Changed(c); {
		case !there:
			return fmt.Errorf("%w: %q; create it first", segment.ErrUnknownTag, tag)
		case to.MaxID < was.MaxID:
			return fmt.Errorf("%w: that of %q is %d", segment.ErrLowersMaxID, tag, was.MaxID)
		}
		return segment.CheckChange(was.MaxID, c)
	})
}

// Delete implements segment.Admin.
func (s *Store) Delete(ctx context.Context, tag string, before func(segment.Row) error) (segment.Row, error) {
	return s.change(ctx, OpDelete, tag, nil, before, func(_ segment.Row, there bool) error {
		if !there {
			return fmt.Errorf("%w: %q", segment.ErrUnknownTag, tag)
		}
		return nil
	})
}

// change has the row of tag be to, nil for none, where check agrees, and calls before while it holds the row.
func (s *Store) change(ctx context.Context, op Op, tag string, to *segment.Row, before func(segment.Row) error, check func(was segment.Row, there bool) error) (was segment.Row, err error) {
	t := s.at.Load()
	err = s.call(ctx, t, op, []string{tag}, func() error {
		unlock, err := t.lock(ctx, tag, lockWait)
		if err != nil {
			return err
		}
		defer unlock()
		row, there := t.Row(tag)
		if err = check(row, there); err == nil && before != nil {
			err = before(row)
		}
		if err != nil {
			return err
		}
		was = row
		t.do(func() {
			if delete(t.rows, tag); to != nil {
				t.rows[tag] = *to
			}
		})
		return nil
	})
	return was, err
}
