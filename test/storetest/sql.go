package storetest

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
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
	// Description is the column for it, if it has another name.
	Description string
	// NoTime says that the table has no update_time.
	NoTime bool
}

// sqlHarness is a harness with the database behind its table.
type sqlHarness struct {
	*harness
	SQLFixture
}

// RunSQL runs Run's suite, RunAdmin's, and what only a SQL database can be asked: locks,
// transactions of others, and the columns that a daemon doesn't write.
func RunSQL(t *testing.T, open func(t *testing.T) SQLFixture) {
	of := func(s SQLFixture) Fixture {
		return Fixture{Open: s.Open, Table: sqlTable{s.DB, cmp.Or(s.Description, "description")}, Narrow: s.Narrow}
	}
	fixture := func(t *testing.T) Fixture { return of(open(t)) }
	Run(t, fixture)
	RunAdmin(t, fixture)
	for name, test := range map[string]func(t *testing.T, f *sqlHarness){
		"beside Java Leaf clients":       testBesideJavaLeaf,
		"a description of NULL is empty": testNullDescription,
		"an update tells its time":       testUpdateTime,
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			h := &harness{Fixture: of(s)}
			h.store = h.open(t)
			test(t, &sqlHarness{h, s})
		})
	}
}

// sqlTable is Table with an operator's SQL.
type sqlTable struct {
	db          *sql.DB
	description string
}

func (s sqlTable) Insert(ctx context.Context, rows ...segment.Row) error {
	values := make([]string, len(rows))
	args := make([]any, 0, 4*len(rows))
	for i, r := range rows {
		values[i] = "(?, ?, ?, ?)"
		args = append(args, r.Tag, r.MaxID, r.Step, r.Description)
	}
	_, err := s.db.ExecContext(ctx,
		"INSERT INTO leaf_alloc (biz_tag, max_id, step, `"+s.description+"`) VALUES "+strings.Join(values, ", "), args...)
	return err
}

func (s sqlTable) Row(ctx context.Context, tag string) (maxID, step int64, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT biz_tag, max_id, step FROM leaf_alloc")
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close()
	for name := ""; name != tag; {
		if !rows.Next() {
			return 0, 0, errors.Join(sql.ErrNoRows, rows.Err())
		}
		if err := rows.Scan(&name, &maxID, &step); err != nil {
			return 0, 0, err
		}
	}
	return maxID, step, nil
}

func (s sqlTable) Clear(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, "DELETE FROM leaf_alloc")
	return err
}

// exec runs SQL as an operator would.
func (f *sqlHarness) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	_, err := f.DB.ExecContext(patient(t), query, args...)
	require.NoError(t, err)
}

// javaFetch is what a Java Leaf does (IDAllocDaoImpl.updateMaxIdAndGetLeafAlloc):
// it owns [max_id-step, max_id).
func (f *sqlHarness) javaFetch(ctx context.Context, tag string) (segment.Range, error) {
	tx, err := f.DB.BeginTx(ctx, nil)
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
	return segment.Range{Lo: maxID - step, Hi: maxID}, tx.Commit()
}

func testBesideJavaLeaf(t *testing.T, f *sqlHarness) {
	const goroutines, fetches = 9, 30
	f.add(t, "order", 1, 10)
	daemons := []Store{f.store, f.open(t)}
	ranges := collect(t, goroutines, fetches, func(ctx context.Context, g, i int) (segment.Range, error) {
		if g%3 == 2 {
			return f.javaFetch(ctx, "order")
		}
		return FetchPatiently(ctx, daemons[g%3], "order", int64(i), 0)
	})
	require.Len(t, ranges, goroutines*fetches)
	maxID, _ := f.row(t, "order")
	requireContiguous(t, ranges, 1, maxID)
}

func testNullDescription(t *testing.T, f *sqlHarness) {
	f.add(t, "none", 1, 1)
	f.exec(t, "UPDATE leaf_alloc SET `"+cmp.Or(f.Description, "description")+"` = NULL")
	require.Empty(t, f.get(t, "none").Description)
}

// testUpdateTime: the time is the database's and in UTC. Seconds are all that
// the column has, so a time in the past shows that it was set.
func testUpdateTime(t *testing.T, f *sqlHarness) {
	old := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	get := func(tag string) time.Time {
		row, err := f.store.Get(patient(t), tag)
		require.NoError(t, err)
		return row.UpdateTime
	}
	for name, change := range map[string]func() error{
		"fetch":  func() error { _, err := Fetch(patient(t), f.store, "fetch", 1, 0); return err },
		"update": func() error { step := int64(5); return f.update(t, "update", segment.Change{Step: &step}) },
	} {
		f.add(t, name, 1, 10)
		if f.NoTime {
			require.Zero(t, get(name))
			continue
		}
		f.exec(t, "UPDATE leaf_alloc SET update_time = '2001-02-03 04:05:06' WHERE biz_tag = ?", name)
		require.Equal(t, old, get(name))
		require.NoError(t, change())
		require.Greater(t, get(name).Year(), 2020, "by %s", name)
		require.Equal(t, time.UTC, get(name).Location())
	}
}
