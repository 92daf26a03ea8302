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
	rows    map[string]segment.Row   // mu protects
	fetches map[string]int           // mu protects
	locks   map[string]chan struct{} // mu protects; has a token while a fetch holds the row
}

var (
	_ segment.Store = (*Store)(nil)
	_ segment.Admin = (*Store)(nil)
)

// errClosed is returned by every call of a Store after Close.
var errClosed = errors.New("segmenttest: the store was closed")

// NewStore returns a table without rows.
func NewStore() *Store {
	return &Store{table: &table{rows: make(map[string]segment.Row), fetches: make(map[string]int), locks: make(map[string]chan struct{})}}
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

// Set writes a row as it is told to, as a SQL prompt can.
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
	return s.FetchGuarded(ctx, tag, want, func(reserve func(int64, bool) (segment.Range, error)) error {
		_, err := reserve(floor, false)
		return err
	})
}

// FetchGuarded implements segment.Store, as one that is shared. Only fetches wait for each other.
func (s *Store) FetchGuarded(ctx context.Context, tag string, want int64, dispose segment.Dispose) (segment.Range, error) {
	s.table.mu.Lock()
	s.fetches[tag]++
	s.table.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return segment.Range{}, err
	}
	if err := s.enter(ctx, OpFetch, tag); err != nil {
		return segment.Range{}, err
	}
	unlock, err := s.lock(ctx, tag)
	if err != nil {
		return segment.Range{}, err
	}
	defer unlock()
	r, err := s.take(tag, want, dispose)
	if err != nil {
		return segment.Range{}, err
	}
	if err := s.leave(ctx, OpFetch, tag); err != nil {
		return segment.Range{}, err
	}
	return r, nil
}

// lock holds the row of tag until unlock.
func (s *table) lock(ctx context.Context, tag string) (unlock func(), err error) {
	s.mu.Lock()
	row := s.locks[tag]
	if row == nil {
		row = make(chan struct{}, 1)
		s.locks[tag] = row
	}
	s.mu.Unlock()
	select {
	case row <- struct{}{}:
		return func() { <-row }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *table) take(tag string, want int64, dispose segment.Dispose) (segment.Range, error) {
	row, ok := s.Row(tag)
	if !ok {
		return segment.Range{}, fmt.Errorf("%w: %q; create it first", segment.ErrUnknownTag, tag)
	}
	var taken segment.Range
	err := dispose(func(floor int64, above bool) (_ segment.Range, err error) {
		taken, err = segment.Reserve(row.MaxID, row.Step, want, floor, above, func(column string, to int64) string {
			return fmt.Sprintf("Edit %s to %d", column, to)
		})
		return taken, err
	})
	if err != nil {
		return segment.Range{}, fmt.Errorf("segmenttest: tag %q: %w", tag, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, ok := s.rows[tag]
	if !ok || now.MaxID != row.MaxID {
		return segment.Range{}, fmt.Errorf("segmenttest: tag %q was changed or made again while a range was fetched", tag)
	}
	now.MaxID = taken.Hi
	s.rows[tag] = now
	return taken, nil
}

// Each implements segment.Store.
func (s *Store) Each(ctx context.Context, _ segment.View, fn func(tag []byte, maxID, step int64) error) (segment.View, error) {
	view := segment.View{Whole: true}
	if err := s.usable(ctx); err != nil {
		return view, err
	}
	if err := s.enter(ctx, OpEach, ""); err != nil {
		return view, err
	}
	var name []byte
	for _, r := range s.all() {
		name = append(name[:0], r.Tag...)
		if err := fn(name, r.MaxID, r.Step); err != nil {
			return view, err
		}
	}
	return view, s.leave(ctx, OpEach, "")
}

// Find implements segment.Store.
func (s *Store) Find(ctx context.Context, tags []string, fn func(tag []byte, maxID, step int64) error) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if err := s.enter(ctx, OpFind, strings.Join(tags, ",")); err != nil {
		return err
	}
	for _, r := range s.all() {
		if slices.Contains(tags, r.Tag) {
			if err := fn([]byte(r.Tag), r.MaxID, r.Step); err != nil {
				return err
			}
		}
	}
	return s.leave(ctx, OpFind, "")
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
