// Package storetest is the conformance suite of segment.Store, segment.Admin and
// segment.HighWater: what every implementation has to do alike, on the real thing.
package storetest

import (
	"context"
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
	// Narrow says that the table holds tags of latin1 only.
	Narrow bool
}

// Table is leaf_alloc as an operator reaches it: none of leafd's checks stands
// in between.
type Table interface {
	// Insert adds rows with any values; their UpdateTime is ignored.
	Insert(ctx context.Context, rows ...segment.Row) error
	// SetMaxID and SetStep change one column of a row that is there.
	SetMaxID(ctx context.Context, tag string, maxID int64) error
	SetStep(ctx context.Context, tag string, step int64) error
	// Row returns max_id and step of a row that is there.
	Row(ctx context.Context, tag string) (maxID, step int64, err error)
	// Clear removes all rows.
	Clear(ctx context.Context) error
}

// Each calls fn with every row of store.
func Each(ctx context.Context, store segment.Store, fn func(tag []byte, maxID, step int64) error) error {
	_, err := store.Each(ctx, segment.View{}, fn)
	return err
}

// patience bounds what should take milliseconds, on a machine that is busy.
const patience = 60 * time.Second

// Run runs the suite over a Store of any kind; open returns a fresh table for
// each test. A store in a SQL database runs RunSQL, which has this in it.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	tests := map[string]func(t *testing.T, f *harness){
		"fetch takes a half-open range":           testFetchRange,
		"fetch refuses what it can't give":        testFetchRefuses,
		"fetch refuses a regressed row":           testFetchRegressed,
		"fetch above a floor":                     testFetchAbove,
		"a fetch asks while it holds the row":     testFetchGuarded,
		"fetch of an unknown tag":                 testFetchUnknown,
		"fetch with a context that has ended":     testFetchCancelled,
		"fetch from many daemons at once":         testFetchConcurrent,
		"fetch of a tag that is being recreated":  testFetchRecreated,
		"tags of all kinds":                       testOddTags,
		"tags that look alike":                    testAlikeTags,
		"tags that can't be":                      testBadTags,
		"create, list, update, delete":            testAdmin,
		"create and update refuse what can't be":  testAdminRefuses,
		"update and delete fix a spoilt row":      testAdminFixes,
		"each gives every row once":               testEach,
		"each stops at an error":                  testEachStops,
		"each gives nothing of an emptied table":  testEachEmpty,
		"close ends the store":                    testClosed,
		"the description is kept byte for byte":   testDescription,
		"fetch leaves step and description alone": testFetchLeavesRest,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := &harness{Fixture: open(t)}
			f.store = f.open(t)
			test(t, f)
		})
	}
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

// context bounds a test's calls.
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

// clear empties the table.
func (f *harness) clear(t testing.TB) {
	t.Helper()
	require.NoError(t, f.Table.Clear(patient(t)))
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
	r, err := f.store.Fetch(patient(t), tag, want, 0)
	require.NoError(t, err)
	return r
}

// update and remove return what went wrong alone.
func (f *harness) update(t testing.TB, tag string, step *int64, description *string) error {
	t.Helper()
	_, err := f.store.Update(patient(t), tag, step, description)
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
