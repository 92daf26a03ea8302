// Package storetest is the conformance suite of segment.Store, segment.Admin,
// segment.HighWater and segment.Guard: what every implementation has to do alike, on the real thing.
//
//	storetest.Run(t, open)           a segment.Store; open makes a Fixture for each test
//	storetest.RunAdmin(t, open)      its segment.Admin
//	storetest.RunSQL(t, open)        both, of a SQL database, and what only such a one can be asked
//	storetest.RunHighWater(t, open)  a segment.HighWater
//	storetest.RunGuard(t, open)      a segment.Guard
package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
)

// Store is what the suite tests.
type Store interface {
	segment.Store
	segment.Admin
}

// Fixture is one table leaf_alloc, made for one test.
type Fixture struct {
	// Open returns one more Store on the table, as another daemon would
	// have. Its time-outs are generous; the caller closes it.
	Open func(t testing.TB) Store
	// Table reaches the table behind leafd's back.
	Table Table
	// Narrow says that the table holds tags of latin1 only, or of what has three bytes in UTF-8.
	Narrow bool
}

// Table is leaf_alloc as an operator reaches it: none of leafd's checks stands
// in between.
type Table interface {
	// Insert adds rows with any values; their UpdateTime is ignored.
	Insert(ctx context.Context, rows ...segment.Row) error
	// Row returns max_id and step of a row that is there.
	Row(ctx context.Context, tag string) (maxID, step int64, err error)
	// Clear removes all rows.
	Clear(ctx context.Context) error
}

// Fetch takes a range of tag as a daemon does without a guard, which is to begin at floor or above.
func Fetch(ctx context.Context, store segment.Store, tag string, want, floor int64) (segment.Range, error) {
	tx, err := store.Begin(ctx, []string{tag})
	if err != nil {
		return segment.Range{}, err
	}
	defer tx.Rollback(ctx)
	if len(tx.Rows()) == 0 {
		return segment.Range{}, segment.ErrUnknownTag
	}
	row := tx.Rows()[0]
	r, err := segment.Reserve(row, want, floor)
	if err == nil {
		err = tx.Move(ctx, []segment.Move{{Tag: tag, From: row.MaxID, To: r.Hi}})
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		return segment.Range{}, err
	}
	return r, nil
}

// FetchPatiently is Fetch, again while others have the row.
func FetchPatiently(ctx context.Context, store segment.Store, tag string, want, floor int64) (segment.Range, error) {
	for {
		r, err := Fetch(ctx, store, tag, want, floor)
		if !errors.Is(err, segment.ErrLocked) || ctx.Err() != nil {
			return r, err
		}
	}
}

// patience bounds what should take milliseconds, on a machine that is busy.
const patience = 60 * time.Second

type tests map[string]func(t *testing.T, f *harness)

func (s tests) run(t *testing.T, open func(t *testing.T) Fixture) {
	t.Helper()
	for name, test := range s {
		t.Run(name, func(t *testing.T) {
			f := &harness{Fixture: open(t)}
			f.store = f.open(t)
			test(t, f)
		})
	}
}

// Run runs the suite over a Store of any kind; open returns a fresh table for
// each test.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	tests{
		"a range is half-open":                testRange,
		"a batch moves all or nothing":        testBatch,
		"a row moves only from what was read": testMoveIsConditional,
		"rows that others hold":               testHeld,
		"what isn't there":                    testUnknown,
		"find":                                testFind,
		"a context that has ended":            testCancelled,
		"close ends the store":                testClosed,
	}.run(t, open)
}

// RunAdmin runs the suite over an Admin of any kind, as Run does.
func RunAdmin(t *testing.T, open func(t *testing.T) Fixture) {
	tests{
		"tags of all kinds":                testOddTags,
		"tags that look alike":             testAlikeTags,
		"tags that can't be":               testBadTags,
		"create, get, update, delete":      testAdmin,
		"what is refused":                  testAdminRefuses,
		"a spoilt row is fixed":            testAdminFixes,
		"what is asked before a change":    testBefore,
		"pages":                            testPages,
		"the description is kept as it is": testDescription,
	}.run(t, open)
}

// harness is a Fixture with one open Store.
type harness struct {
	Fixture
	store Store
}

// open returns one more Store, closed when the test ends.
func (f *harness) open(t testing.TB) Store {
	t.Helper()
	store := f.Open(t)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// patient bounds a test's calls.
func patient(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// add creates a row as an operator would.
func (f *harness) add(t testing.TB, tag string, maxID, step int64) {
	t.Helper()
	require.NoError(t, f.Table.Insert(patient(t), segment.Row{Tag: tag, MaxID: maxID, Step: step, Description: "by hand"}))
}

// row returns max_id and step as the table has them.
func (f *harness) row(t testing.TB, tag string) (maxID, step int64) {
	t.Helper()
	maxID, step, err := f.Table.Row(patient(t), tag)
	require.NoError(t, err)
	return maxID, step
}

// fetch takes a range that must be there to take.
func (f *harness) fetch(t testing.TB, tag string, want int64) segment.Range {
	t.Helper()
	r, err := Fetch(patient(t), f.store, tag, want, 0)
	require.NoError(t, err)
	return r
}

// begin begins a transaction, which ends with the test.
func (f *harness) begin(t testing.TB, store segment.Store, tags ...string) segment.Tx {
	t.Helper()
	ctx := patient(t)
	tx, err := store.Begin(ctx, tags)
	require.NoError(t, err)
	t.Cleanup(func() { tx.Rollback(context.WithoutCancel(ctx)) })
	return tx
}

// update and remove return what went wrong alone.
func (f *harness) update(t testing.TB, tag string, c segment.Change) error {
	t.Helper()
	_, err := f.store.Update(patient(t), tag, c, nil)
	return err
}

func (f *harness) remove(t testing.TB, tag string) error {
	t.Helper()
	_, err := f.store.Delete(patient(t), tag, nil)
	return err
}

// requireContiguous checks that ranges, in any order, cover [from, to) exactly:
// no ID twice, none left out.
func requireContiguous(t testing.TB, ranges []segment.Range, from, to int64) {
	t.Helper()
	slices.SortFunc(ranges, func(a, b segment.Range) int {
		if a.Lo < b.Lo {
			return -1
		}
		return 1
	})
	next := from
	for _, r := range ranges {
		require.Equal(t, next, r.Lo, "the range before ends at %d, this one is [%d, %d)", next, r.Lo, r.Hi)
		require.Greater(t, r.Hi, r.Lo)
		next = r.Hi
	}
	require.Equal(t, to, next, "the last range ends elsewhere than max_id")
}
