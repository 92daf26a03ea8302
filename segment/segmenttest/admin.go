package segmenttest

import (
	"context"
	"fmt"
	"math"
	"unicode/utf8"

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
	if err := checkNew(r); err != nil {
		return err
	}
	if _, ok := s.rows[r.Tag]; ok {
		return fmt.Errorf("%w: %q; update it instead", segment.ErrTagExists, r.Tag)
	}
	s.rows[r.Tag] = r
	return nil
}

// Update implements segment.Admin.
func (s *Store) Update(ctx context.Context, tag string, step *int64, description *string) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	row, ok := s.rows[tag]
	if !ok {
		return fmt.Errorf("%w: %q; create it first", segment.ErrUnknownTag, tag)
	}
	if step != nil {
		if err := checkStep(tag, row.MaxID, *step); err != nil {
			return err
		}
		row.Step = *step
	}
	if description != nil {
		if err := checkDescription(tag, *description); err != nil {
			return err
		}
		row.Description = *description
	}
	s.rows[tag] = row
	return nil
}

// Delete implements segment.Admin.
func (s *Store) Delete(ctx context.Context, tag string) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if _, ok := s.rows[tag]; !ok {
		return fmt.Errorf("%w: %q", segment.ErrUnknownTag, tag)
	}
	delete(s.rows, tag)
	return nil
}

// checkNew tells whether row can be created.
func checkNew(row segment.Row) error {
	if row.Tag == "" || len(row.Tag) > segment.MaxTagBytes || !utf8.ValidString(row.Tag) {
		return fmt.Errorf("%w: tag %q must have 1 to %d bytes of UTF-8", segment.ErrBadRow, row.Tag, segment.MaxTagBytes)
	}
	if row.MaxID < 0 {
		return fmt.Errorf("%w: %q can't begin at max_id %d", segment.ErrBadRow, row.Tag, row.MaxID)
	}
	if err := checkStep(row.Tag, row.MaxID, row.Step); err != nil {
		return err
	}
	return checkDescription(row.Tag, row.Description)
}

// checkStep tells whether a row at maxID can have step. A max_id below 0 is no
// reason against it: so a spoilt row can be mended.
func checkStep(tag string, maxID, step int64) error {
	if step < 1 || maxID > math.MaxInt64-step {
		return fmt.Errorf("%w: %q with max_id %d can't have step %d", segment.ErrBadRow, tag, maxID, step)
	}
	return nil
}

func checkDescription(tag, description string) error {
	if !utf8.ValidString(description) {
		return fmt.Errorf("%w: the description of %q isn't UTF-8", segment.ErrBadRow, tag)
	}
	return nil
}
