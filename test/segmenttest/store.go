// Package segmenttest has what package segment needs of the outside, in memory: Store (with segment.Admin)
// for the table, Guard for ZooKeeper's high marks, and HighWater for the marks on a disk. Each passes the
// conformance suite of the real ones, and can be made to fail, hang, take long, lose answers, and be set
// back: what the real ones do, but not when a test asks for it. In a bubble of testing/synctest all
// that waits in them does so durably.
package segmenttest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/segment"
)

// Store is leaf_alloc in memory, as one daemon reaches it: with faults and a Close of its own. Many can be on
// one table (Beside), and a table can be a replica of another (Copy, Use).
type Store struct {
	Faults
	*table // the one that it was made on, as a SQL prompt reaches it: no fault touches that

	at     atomic.Pointer[table] // the one that calls go to
	closed atomic.Bool
}

// table is one server's, which all Stores on it share.
type table struct {
	server string // immutable

	locked                            // protects all below
	rows     map[string]segment.Row   // by tag
	twice    map[string]bool          // tags of which there are two rows
	fetches  map[string]int           // by tag
	locks    map[string]chan struct{} // by tag; has a token while a transaction holds the row
	most     int64                    // what the column max_id takes
	readOnly bool
	noSkip   bool // the server doesn't know SKIP LOCKED
	unlocked bool // each statement is a transaction of its own
}

var (
	_ segment.Store = (*Store)(nil)
	_ segment.Admin = (*Store)(nil)

	// ErrAway is what a store says that can't be reached; for Faults.
	ErrAway = fmt.Errorf("%w: segmenttest: connection refused", segment.ErrStore)

	errClosed = errors.New("segmenttest: the store was closed")
	errEnded  = errors.New("segmenttest: the transaction has ended")
)

// lockWait is for how long a row is waited for that another transaction holds.
const lockWait = time.Second

// NewStore returns a table without rows, on a server without a name.
func NewStore() *Store { return newStore("", map[string]segment.Row{}) }

func newStore(server string, rows map[string]segment.Row) *Store {
	return (&Store{table: &table{
		server: server, rows: rows, twice: map[string]bool{}, fetches: map[string]int{}, locks: map[string]chan struct{}{}, most: math.MaxInt64,
	}}).Beside()
}

// Beside returns one more Store on the same table, as another daemon has it.
func (s *Store) Beside() *Store {
	beside := &Store{table: s.table}
	beside.Use(s)
	return beside
}

// Copy returns a Store on the server with that name, whose rows are those that the table of s has now.
func (s *Store) Copy(server string) (replica *Store) {
	s.table.do(func() { replica = newStore(server, maps.Clone(s.rows)) })
	return replica
}

// Use has calls that follow go to the table that other was made on, as after a failover. Transactions that
// are open end where they began.
func (s *Store) Use(other *Store) { s.at.Store(other.table) }

// ReadOnly has the server take no writes, those of open transactions among them.
func (t *table) ReadOnly(on bool) { t.do(func() { t.readOnly = on }) }

// NoSkip makes the server one that doesn't know SKIP LOCKED: of several tags all are skipped.
func (t *table) NoSkip() { t.do(func() { t.noSkip = true }) }

// Unlock makes each statement a transaction of its own, as behind a multiplexer that lost autocommit=0: no
// row is locked.
func (t *table) Unlock() { t.do(func() { t.unlocked = true }) }

// Column makes most the highest max_id that the column takes.
func (t *table) Column(most int64) { t.do(func() { t.most = most }) }

// Twice makes two rows of tag's.
func (t *table) Twice(tag string) { t.do(func() { t.twice[tag] = true }) }

// Set writes a row as it is told to, as a SQL prompt can.
func (t *table) Set(tag string, maxID, step int64) {
	t.do(func() { t.rows[tag] = segment.Row{Tag: tag, MaxID: maxID, Step: step} })
}

// Remove removes a row.
func (t *table) Remove(tag string) { t.do(func() { delete(t.rows, tag) }) }

// Clear removes all rows.
func (t *table) Clear() { t.do(func() { clear(t.rows) }) }

// Edit changes a row that is there, atomically.
func (t *table) Edit(tag string, change func(r *segment.Row)) {
	t.do(func() {
		if r, ok := t.rows[tag]; ok {
			change(&r)
			t.rows[tag] = r
		}
	})
}

// Row returns a row.
func (t *table) Row(tag string) (r segment.Row, ok bool) {
	t.do(func() { r, ok = t.rows[tag] })
	return r, ok
}

// Snapshot returns what sets the table back to what it has now.
func (t *table) Snapshot() (restore func()) {
	var rows map[string]segment.Row
	t.do(func() { rows = maps.Clone(t.rows) })
	return func() { t.do(func() { t.rows = maps.Clone(rows) }) }
}

// Fetches returns how many transactions have begun that asked for tag.
func (t *table) Fetches(tag string) (n int) {
	t.do(func() { n = t.fetches[tag] })
	return n
}

// call is a call on t.
func (s *Store) call(ctx context.Context, t *table, op Op, tags []string, effect func() error) error {
	if s.closed.Load() {
		return errClosed
	}
	err := s.run(ctx, op, tags, func() error {
		if err := t.writable(); err != nil && !slices.Contains([]Op{OpFind, OpGet, OpPage}, op) {
			return err
		}
		return effect()
	})
	if errors.Is(err, errHung) {
		return fmt.Errorf("%w: %w", segment.ErrStore, err)
	}
	return err
}

func (t *table) writable() (err error) {
	t.do(func() {
		if t.readOnly {
			err = fmt.Errorf("%w: segmenttest: %w", segment.ErrStore, segment.ErrReadOnly)
		}
	})
	return err
}

// lock holds the row of tag until unlock. One that another transaction holds it waits for, unless wait is 0.
func (t *table) lock(ctx context.Context, tag string, wait time.Duration) (unlock func(), err error) {
	var row chan struct{}
	t.do(func() {
		if row = t.locks[tag]; row == nil || t.unlocked {
			row = make(chan struct{}, 1)
			t.locks[tag] = row
		}
	})
	unlock = func() { <-row }
	select {
	case row <- struct{}{}:
		return unlock, nil
	default:
	}
	select {
	case row <- struct{}{}:
		return unlock, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", segment.ErrStore, ctx.Err())
	case <-time.After(wait):
		return nil, fmt.Errorf("%w: segmenttest: that of %q", segment.ErrLocked, tag)
	}
}

// move moves all of moves, which have to be possible, or none; with apply false it only tells whether they are.
func (t *table) move(moves map[string]segment.Move, apply bool) (err error) {
	t.do(func() {
		for _, m := range moves {
			r, there := t.rows[m.Tag]
			switch {
			case !there || r.MaxID != m.From || t.twice[m.Tag]:
				err = fmt.Errorf("segmenttest: the row of %q is another than was read", m.Tag)
			case m.To > t.most:
				err = fmt.Errorf("%w: segmenttest: max_id of %q can't be %d", segment.ErrBadRow, m.Tag, m.To)
			}
		}
		for _, m := range moves {
			if r := t.rows[m.Tag]; err == nil && apply {
				r.MaxID = m.To
				t.rows[m.Tag] = r
			}
		}
	})
	return err
}

// find returns the rows of tag.
func (t *table) find(tag string) (rows []segment.Row) {
	t.do(func() {
		if r, there := t.rows[tag]; there {
			r.Description, r.UpdateTime = "", time.Time{}
			rows = append(rows, r)
		}
		if t.twice[tag] {
			rows = append(rows, rows...)
		}
	})
	return rows
}

// Find implements segment.Store.
func (s *Store) Find(ctx context.Context, tags []string) (rows []segment.Row, err error) {
	t := s.at.Load()
	err = s.call(ctx, t, OpFind, tags, func() error {
		for _, tag := range tags {
			rows = append(rows, t.find(tag)...)
		}
		return nil
	})
	return rows, err
}

// Warm implements segment.Store: it is counted, and no fault touches it.
func (s *Store) Warm() { s.Faults.do(func() { s.count(OpWarm) }) }

// Close implements segment.Store: no call of this Store does anything any more.
// The table stays, for the Stores beside it.
func (s *Store) Close() error {
	s.closed.Store(true)
	return nil
}
