package segmenttest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/leafd/leafd/segment"
)

// tx is a transaction of a Store: it holds its rows until it ends, and nothing that it does is seen before.
type tx struct {
	store *Store
	*table
	tags    []string
	locked  []segment.Row
	skipped []string
	moves   map[string]segment.Move // by tag; from where the row was found
	failed  error                   // a Move's: it is good for Rollback alone; or that it has ended
	end     func()
}

// Begin implements segment.Store.
func (s *Store) Begin(ctx context.Context, tags []string) (segment.Tx, error) {
	s.table.do(func() {
		for _, tag := range tags {
			s.fetches[tag]++
		}
	})
	var unlocks []func()
	x := &tx{store: s, table: s.at.Load(), moves: map[string]segment.Move{}, tags: slices.Compact(slices.Sorted(slices.Values(tags)))}
	x.end = sync.OnceFunc(func() {
		for _, unlock := range unlocks {
			unlock()
		}
	})
	err := s.call(ctx, x.table, OpBegin, x.tags, func() error {
		wait, noSkip := lockWait, false
		x.do(func() { noSkip = x.noSkip })
		if len(x.tags) > 1 {
			wait = 0
		}
		for _, tag := range x.tags {
			unlock, err := x.lock(ctx, tag, wait)
			rows := x.find(tag)
			switch {
			case wait == 0 && (err != nil || noSkip && len(rows) > 0):
				x.skipped, rows = append(x.skipped, tag), nil
			case err != nil:
				return err
			}
			if len(rows) > 0 {
				x.locked, unlocks = append(x.locked, rows...), append(unlocks, unlock)
			} else if err == nil {
				unlock()
			}
		}
		return nil
	})
	if err != nil {
		x.end()
		return nil, err
	}
	return x, nil
}

// Rows implements segment.Tx.
func (x *tx) Rows() []segment.Row { return x.locked }

// Skipped implements segment.Tx.
func (x *tx) Skipped() []string { return x.skipped }

// Server implements segment.Tx.
func (x *tx) Server() string { return x.server }

// Move implements segment.Tx.
func (x *tx) Move(ctx context.Context, moves []segment.Move) error {
	if x.failed != nil {
		return x.failed
	}
	now, moved := false, maps.Clone(x.moves)
	x.do(func() { now = x.unlocked })
	x.failed = x.store.call(ctx, x.table, OpMove, x.tags, func() error {
		for _, m := range moves {
			if was, again := moved[m.Tag]; again && was.To != m.From {
				return fmt.Errorf("segmenttest: the row of %q was moved to %d", m.Tag, was.To)
			} else if again {
				m.From = was.From
			}
			moved[m.Tag] = m
		}
		return x.move(moved, now)
	})
	if !now {
		x.moves = moved
	}
	return x.failed
}

// Commit implements segment.Tx.
func (x *tx) Commit(ctx context.Context) error {
	if x.failed != nil {
		return x.failed
	}
	x.failed = errEnded
	end := x.end
	err := x.store.call(ctx, x.table, OpCommit, x.tags, func() error {
		defer end()
		return x.move(x.moves, true)
	})
	if x.end = func() {}; !errors.Is(err, ErrLate) {
		end()
	}
	return err
}

// Rollback implements segment.Tx. Where its connection has failed the server sees that, and the rows are free too.
func (x *tx) Rollback(ctx context.Context) {
	if !errors.Is(x.failed, errEnded) {
		x.failed = errEnded
		_ = x.store.run(ctx, OpRollback, x.tags, func() error { return nil })
		x.end()
	}
}
