package segmenttest

import (
	"context"
	"fmt"

	"github.com/leafd/leafd/segment"
)

// List implements segment.Admin.
func (s *Store) List(ctx context.Context) ([]segment.Row, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	return s.all(), nil
}

// Create implements segment.Admin. The row's UpdateTime is kept as it is: there
// is no clock here.
func (s *Store) Create(ctx context.Context, r segment.Row) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if err := segment.CheckRow(r); err != nil {
		return err
	}
	if _, ok := s.rows[r.Tag]; ok {
		return fmt.Errorf("%w: %q; update it instead", segment.ErrTagExists, r.Tag)
	}
	s.rows[r.Tag] = r
	return nil
}

// Update implements segment.Admin.
func (s *Store) Update(ctx context.Context, tag string, step *int64, description *string) (segment.Row, error) {
	if err := s.usable(ctx); err != nil {
		return segment.Row{}, err
	}
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	row, ok := s.rows[tag]
	if !ok {
		return segment.Row{}, fmt.Errorf("%w: %q; create it first", segment.ErrUnknownTag, tag)
	}
	if err := segment.CheckChange(row.MaxID, step, description); err != nil {
		return segment.Row{}, err
	}
	s.rows[tag] = row.Changed(step, description)
	return row, nil
}

// SetMaxID implements segment.Admin.
func (s *Store) SetMaxID(ctx context.Context, tag string, maxID int64, before func(segment.Row) error) (segment.Row, error) {
	return s.changeAfter(ctx, tag, before, func(row segment.Row) error {
		if err := segment.CheckMaxID(maxID, row.Step); err != nil {
			return err
		}
		row.MaxID = maxID
		s.rows[tag] = row
		return nil
	})
}

// Delete implements segment.Admin.
func (s *Store) Delete(ctx context.Context, tag string, before func(segment.Row) error) (segment.Row, error) {
	return s.changeAfter(ctx, tag, before, func(segment.Row) error { delete(s.rows, tag); return nil })
}

func (s *Store) changeAfter(ctx context.Context, tag string, before, do func(segment.Row) error) (segment.Row, error) {
	if err := s.usable(ctx); err != nil {
		return segment.Row{}, err
	}
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	row, ok := s.rows[tag]
	if !ok {
		return segment.Row{}, fmt.Errorf("%w: %q", segment.ErrUnknownTag, tag)
	}
	if before != nil {
		if err := before(row); err != nil {
			return segment.Row{}, err
		}
	}
	if err := do(row); err != nil {
		return segment.Row{}, err
	}
	return row, nil
}
