// Package segmenttest has a segment.Store and segment.Marks in memory that can
// be made to fail, to hang, to lose replies and to go backwards: what a real
// database does, but not when a test asks for it.
package segmenttest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/leafd/leafd/segment"
)

// Store is leaf_alloc in memory.
type Store struct {
	Faults

	mu      sync.Mutex
	rows    map[string]segment.Row
	fetches map[string]int
}

var (
	_ segment.Store = (*Store)(nil)
	_ segment.Admin = (*Store)(nil)
)

// NewStore returns a table without rows.
func NewStore() *Store {
	return &Store{rows: make(map[string]segment.Row), fetches: make(map[string]int)}
}

// Set writes a row as it is told to, as somebody with a SQL prompt can.
func (s *Store) Set(tag string, maxID, step int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[tag] = segment.Row{Tag: tag, MaxID: maxID, Step: step}
}

// Edit changes a row that is there, atomically.
func (s *Store) Edit(tag string, change func(r *segment.Row)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.rows[tag]; ok {
		change(&r)
		s.rows[tag] = r
	}
}

// Row returns a row; no fault touches it.
func (s *Store) Row(tag string) (segment.Row, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.rows[tag]
	return r, ok
}

// Clear removes all rows.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.rows)
}

// Fetches returns how many calls of Fetch for tag have begun.
func (s *Store) Fetches(tag string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetches[tag]
}

// Fetch implements segment.Store.
func (s *Store) Fetch(ctx context.Context, tag string, want, floor int64) (segment.Range, error) {
	s.mu.Lock()
	s.fetches[tag]++
	s.mu.Unlock()
	if err := s.enter(ctx, OpFetch, tag); err != nil {
		return segment.Range{}, err
	}
	r, err := s.take(tag, want, floor)
	if err != nil {
		return segment.Range{}, err
	}
	if err := s.leave(ctx, OpFetch, tag); err != nil {
		return segment.Range{}, err
	}
	return r, nil
}

func (s *Store) take(tag string, want, floor int64) (segment.Range, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row, ok := s.rows[tag]
	if !ok {
		return segment.Range{}, fmt.Errorf("%w: %q; create it first", segment.ErrUnknownTag, tag)
	}
	if err := validate(row); err != nil {
		return segment.Range{}, err
	}
	if row.MaxID < floor {
		return segment.Range{}, fmt.Errorf("%w: %q has %d, seen before: %d; raise it to that",
			segment.ErrRegressed, tag, row.MaxID, floor)
	}
	size := max(want, row.Step)
	if size > math.MaxInt64-row.MaxID {
		return segment.Range{}, fmt.Errorf("%w: %q has max_id %d and %d more would pass the end of int64",
			segment.ErrBadRow, tag, row.MaxID, size)
	}
	lo := row.MaxID
	row.MaxID += size
	s.rows[tag] = row
	return segment.Range{Lo: lo, Hi: row.MaxID, Step: row.Step}, nil
}

func validate(row segment.Row) error {
	if row.Tag == "" || len(row.Tag) > segment.MaxTagBytes {
		return fmt.Errorf("%w: tag %q must have 1 to %d bytes", segment.ErrBadRow, row.Tag, segment.MaxTagBytes)
	}
	if row.Step < 1 || row.MaxID < 0 {
		return fmt.Errorf("%w: %q has max_id %d and step %d; mend it", segment.ErrBadRow, row.Tag, row.MaxID, row.Step)
	}
	return nil
}

// Each implements segment.Store.
func (s *Store) Each(ctx context.Context, fn func(tag []byte, maxID, step int64) error) error {
	if err := s.enter(ctx, OpEach, ""); err != nil {
		return err
	}
	rows, err := s.List(ctx)
	if err != nil {
		return err
	}
	var name []byte
	for _, r := range rows {
		name = append(name[:0], r.Tag...)
		if err := fn(name, r.MaxID, r.Step); err != nil {
			return err
		}
	}
	return s.leave(ctx, OpEach, "")
}

// List implements segment.Admin.
func (s *Store) List(context.Context) ([]segment.Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := make([]segment.Row, 0, len(s.rows))
	for _, r := range s.rows {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b segment.Row) int { return strings.Compare(a.Tag, b.Tag) })
	return rows, nil
}

// Create implements segment.Admin.
func (s *Store) Create(_ context.Context, r segment.Row) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := validate(r); err != nil {
		return err
	}
	if _, ok := s.rows[r.Tag]; ok {
		return fmt.Errorf("%w: %q; update it instead", segment.ErrTagExists, r.Tag)
	}
	s.rows[r.Tag] = r
	return nil
}

// Update implements segment.Admin.
func (s *Store) Update(_ context.Context, tag string, step *int64, description *string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	row, ok := s.rows[tag]
	if !ok {
		return fmt.Errorf("%w: %q; create it first", segment.ErrUnknownTag, tag)
	}
	if step != nil {
		row.Step = *step
	}
	if description != nil {
		row.Description = *description
	}
	if row.Step < 1 {
		return validate(row)
	}
	s.rows[tag] = row
	return nil
}

// Delete implements segment.Admin.
func (s *Store) Delete(_ context.Context, tag string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.rows[tag]; !ok {
		return fmt.Errorf("%w: %q", segment.ErrUnknownTag, tag)
	}
	delete(s.rows, tag)
	return nil
}

// Close implements segment.Store.
func (s *Store) Close() error { return nil }
