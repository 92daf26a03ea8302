package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
)

// SQLFixture is one table leaf_alloc in a SQL database, made for one test.
type SQLFixture struct {
	// Open is as in Fixture.
	Open func(t testing.TB) Store
	// DB reaches the table behind leafd's back, as a Java Leaf and an
	// operator do. Its transactions may write from their first statement.
	DB *sql.DB
	// Narrow is as in Fixture.
	Narrow bool
}

// sqlHarness is a harness with the database behind its table.
type sqlHarness struct {
	*harness
	db *sql.DB
}

// RunSQL runs Run's suite and what only a SQL database can be asked: locks,
// transactions of others, and the columns that a daemon doesn't write.
func RunSQL(t *testing.T, open func(t *testing.T) SQLFixture) {
	fixture := func(t *testing.T) (Fixture, *sql.DB) {
		s := open(t)
		return Fixture{Open: s.Open, Table: sqlTable{s.DB}, Narrow: s.Narrow}, s.DB
	}
	Run(t, func(t *testing.T) Fixture {
		f, _ := fixture(t)
		return f
	})
	for name, test := range map[string]func(t *testing.T, f *sqlHarness){
		"fetch while the row is locked":  testFetchLocked,
		"fetch beside Java Leaf clients": testFetchBesideJavaLeaf,
		"a refusal says what SQL helps":  testRegressedFix,
		"a description of NULL is empty": testNullDescription,
		"an update tells its time":       testUpdateTime,
	} {
		t.Run(name, func(t *testing.T) {
			f, db := fixture(t)
			h := &harness{Fixture: f}
			h.store = h.open(t)
			test(t, &sqlHarness{harness: h, db: db})
		})
	}
}

// sqlTable is Table with an operator's SQL.
type sqlTable struct{ db *sql.DB }

func (s sqlTable) Insert(ctx context.Context, rows ...segment.Row) error {
	values := make([]string, len(rows))
	args := make([]any, 0, 4*len(rows))
	for i, r := range rows {
		values[i] = "(?, ?, ?, ?)"
		args = append(args, r.Tag, r.MaxID, r.Step, r.Description)
	}
	_, err := s.db.ExecContext(ctx,
		"INSERT INTO leaf_alloc (biz_tag, max_id, step, description) VALUES "+strings.Join(values, ", "), args...)
	return err
}

func (s sqlTable) SetMaxID(ctx context.Context, tag string, maxID int64) error {
	return s.update(ctx, "UPDATE leaf_alloc SET max_id = ? WHERE biz_tag = ?", maxID, tag)
}

func (s sqlTable) SetStep(ctx context.Context, tag string, step int64) error {
	return s.update(ctx, "UPDATE leaf_alloc SET step = ? WHERE biz_tag = ?", step, tag)
}

func (s sqlTable) update(ctx context.Context, query string, args ...any) error {
	result, err := s.db.ExecContext(ctx, query, args...)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n != 1 {
		err = fmt.Errorf("storetest: %s changed %d rows, not 1", query, n)
	}
	return err
}

func (s sqlTable) Row(ctx context.Context, tag string) (maxID, step int64, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT max_id, step FROM leaf_alloc WHERE biz_tag = ?", tag).Scan(&maxID, &step)
	return maxID, step, err
}

func (s sqlTable) Clear(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, "DELETE FROM leaf_alloc")
	return err
}

// exec runs SQL as an operator would.
func (f *sqlHarness) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	_, err := f.db.ExecContext(patient(t), query, args...)
	require.NoError(t, err)
}

// javaFetch is what a Java Leaf does (IDAllocDaoImpl.updateMaxIdAndGetLeafAlloc):
// it owns [max_id-step, max_id).
func (f *sqlHarness) javaFetch(ctx context.Context, tag string) (segment.Range, error) {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return segment.Range{}, err
	}
	var maxID, step int64
	_, err = tx.ExecContext(ctx, "UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = ?", tag)
	if err == nil {
		err = tx.QueryRowContext(ctx, "SELECT max_id, step FROM leaf_alloc WHERE biz_tag = ?", tag).Scan(&maxID, &step)
	}
	if err != nil {
		return segment.Range{}, errors.Join(err, tx.Rollback())
	}
	return segment.Range{Lo: maxID - step, Hi: maxID, Step: step}, tx.Commit()
}

// testFetchLocked: another transaction holds the row and doesn't end.
func testFetchLocked(t *testing.T, f *sqlHarness) {
	f.add(t, "order", 1, 10)
	tx, err := f.db.BeginTx(patient(t), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(patient(t), "UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = 'order'")
	require.NoError(t, err)
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = f.store.Fetch(short, "order", 10, 0)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	fetched := make(chan segment.Range)
	go func() {
		r, err := f.store.Fetch(patient(t), "order", 10, 0)
		if err != nil {
			t.Errorf("fetch that waits for the row: %v", err)
		}
		fetched <- r
	}()
	require.NoError(t, tx.Commit())
	// The fetch that gave up took nothing, and the other saw the commit.
	require.Equal(t, segment.Range{Lo: 11, Hi: 21, Step: 10}, <-fetched)
}

func testFetchBesideJavaLeaf(t *testing.T, f *sqlHarness) {
	const goroutines, fetches = 9, 40
	f.add(t, "order", 1, 10)
	daemons := []Store{f.store, f.open(t)}
	ranges := collect(t, goroutines, fetches, func(ctx context.Context, g, i int) (segment.Range, error) {
		if g%3 == 2 {
			return f.javaFetch(ctx, "order")
		}
		return daemons[g%3].Fetch(ctx, "order", int64(i), 0)
	})
	require.Len(t, ranges, goroutines*fetches)
	maxID, _ := f.row(t, "order")
	requireContiguous(t, ranges, 1, maxID)
}

// testRegressedFix: the statement in the error is what helps.
func testRegressedFix(t *testing.T, f *sqlHarness) {
	f.add(t, "it's", 1, 10)
	first := f.fetch(t, "it's", 10)
	f.exec(t, "UPDATE leaf_alloc SET max_id = 3 WHERE biz_tag = ?", "it's")
	_, err := f.store.Fetch(patient(t), "it's", 10, first.Hi)
	require.ErrorIs(t, err, segment.ErrRegressed)
	require.ErrorContains(t, err, "max_id is 3,")
	require.ErrorContains(t, err, "up to 11 were used")
	const fix = "UPDATE leaf_alloc SET max_id = 11 WHERE biz_tag = 'it''s' AND max_id < 11"
	require.ErrorContains(t, err, fix)
	f.exec(t, fix)
	r, err := f.store.Fetch(patient(t), "it's", 10, first.Hi)
	require.NoError(t, err)
	require.Equal(t, segment.Range{Lo: 11, Hi: 21, Step: 10}, r)
}

func testNullDescription(t *testing.T, f *sqlHarness) {
	f.exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step, description) VALUES ('none', 1, 1, NULL)")
	rows, err := f.store.List(patient(t))
	require.NoError(t, err)
	require.Empty(t, find(t, rows, "none").Description)
}

// testUpdateTime: the time is the database's and in UTC. Seconds are all that
// the column has, so a time in the past shows that it was set.
func testUpdateTime(t *testing.T, f *sqlHarness) {
	ctx := patient(t)
	old := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	for name, change := range map[string]func() error{
		"fetch":  func() error { _, err := f.store.Fetch(ctx, "fetch", 1, 0); return err },
		"update": func() error { step := int64(5); return f.update(t, "update", &step, nil) },
	} {
		f.add(t, name, 1, 10)
		f.exec(t, "UPDATE leaf_alloc SET update_time = '2001-02-03 04:05:06' WHERE biz_tag = ?", name)
		rows, err := f.store.List(ctx)
		require.NoError(t, err)
		require.Equal(t, old, find(t, rows, name).UpdateTime)
		require.NoError(t, change())
		rows, err = f.store.List(ctx)
		require.NoError(t, err)
		require.Greater(t, find(t, rows, name).UpdateTime.Year(), 2020, "by %s", name)
		require.Equal(t, time.UTC, find(t, rows, name).UpdateTime.Location())
	}
}
