// Package segmenttest has a segment.Store and segment.HighWater in memory that can
// be made to fail, to hang, to lose replies and to go backwards: what a real
// database does, but not when a test asks for it.
package segmenttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/leafd/leafd/segment"
)

// Store is leaf_alloc in memory.
type Store struct {
	Faults
	*table

	closed atomic.Bool
}

// table is what all Stores on it share.
type table struct {
	mu      sync.Mutex
	rows    map[string]segment.Row // mu protects
	fetches map[string]int         // mu protects
}

var (
	_ segment.Store = (*Store)(nil)
	_ segment.Admin = (*Store)(nil)
)

// errClosed is returned by every call of a Store after Close.
var errClosed = errors.New("segmenttest: the store was closed")

// NewStore returns a table without rows.
func NewStore() *Store {
	return &Store{table: &table{rows: make(map[string]segment.Row), fetches: make(map[string]int)}}
}

// Beside returns one more Store on the same table, as another daemon has it: with
// faults and a Close of its own.
func (s *Store) Beside() *Store { return &Store{table: s.table} }

// usable tells whether a call can begin.
func (s *Store) usable(ctx context.Context) error {
	if s.closed.Load() {
		return errClosed
	}
	return ctx.Err()
}

// Set writes a row as it is told to, as somebody with a SQL prompt can.
func (s *table) Set(tag string, maxID, step int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[tag] = segment.Row{Tag: tag, MaxID: maxID, Step: step}
}

// Edit changes a row that is there, atomically.
func (s *table) Edit(tag string, change func(r *segment.Row)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.rows[tag]; ok {
		change(&r)
		s.rows[tag] = r
	}
}

// Row returns a row; no fault touches it.
func (s *table) Row(tag string) (segment.Row, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.rows[tag]
	return r, ok
}

// Clear removes all rows.
func (s *table) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.rows)
}

// Fetches returns how many calls of Fetch for tag have begun.
func (s *table) Fetches(tag string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetches[tag]
}

// Fetch implements segment.Store.
func (s *Store) Fetch(ctx context.Context, tag string, want, floor int64) (segment.Range, error) {
	return s.fetch(ctx, tag, want, floor, false)
}

// FetchAbove implements segment.Store.
func (s *Store) FetchAbove(ctx context.Context, tag string, want, floor int64) (segment.Range, error) {
	return s.fetch(ctx, tag, want, floor, true)
}

func (s *Store) fetch(ctx context.Context, tag string, want, floor int64, above bool) (segment.Range, error) {
	s.table.mu.Lock()
	s.fetches[tag]++
	s.table.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return segment.Range{}, err
	}
	if err := s.enter(ctx, OpFetch, tag); err != nil {
		return segment.Range{}, err
	}
	r, err := s.take(tag, want, floor, above)
	if err != nil {
		return segment.Range{}, err
	}
	if err := s.leave(ctx, OpFetch, tag); err != nil {
		return segment.Range{}, err
	}
	return r, nil
}

func (s *table) take(tag string, want, floor int64, above bool) (segment.Range, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row, ok := s.rows[tag]
	if !ok {
		return segment.Range{}, fmt.Errorf("%w: %q; create it first", segment.ErrUnknownTag, tag)
	}
	r, err := segment.Reserve(row.MaxID, row.Step, want, floor, above, func(column string, to int64) string {
		return fmt.Sprintf("Edit %s to %d", column, to)
	})
	if err != nil {
		return segment.Range{}, fmt.Errorf("segmenttest: tag %q: %w", tag, err)
	}
	row.MaxID = r.Hi
	s.rows[tag] = row
	return r, nil
}

// Each implements segment.Store.
func (s *Store) Each(ctx context.Context, fn func(tag []byte, maxID, step int64) error) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if err := s.enter(ctx, OpEach, ""); err != nil {
		return err
	}
	var name []byte
	for _, r := range s.all() {
		name = append(name[:0], r.Tag...)
		if err := fn(name, r.MaxID, r.Step); err != nil {
			return err
		}
	}
	return s.leave(ctx, OpEach, "")
}

// all returns the rows, ordered by tag.
func (s *table) all() []segment.Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := make([]segment.Row, 0, len(s.rows))
	for _, r := range s.rows {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b segment.Row) int { return strings.Compare(a.Tag, b.Tag) })
	return rows
}

// Close implements segment.Store: no call of this Store does anything any more.
// The table stays, for the Stores beside it.
func (s *Store) Close() error {
	s.closed.Store(true)
	return nil
}
