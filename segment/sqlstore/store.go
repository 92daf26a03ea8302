package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/leafd/leafd/segment"
)

// Store is the table leaf_alloc in one database. Open and OpenSQLite make
// one. It is safe for concurrent use.
type Store struct {
	*database
	// people is the same database by connections of their own, for what Admin does:
	// however many list and change tags, fetches don't wait for them. Immutable; the
	// very same where connections are not what one waits for.
	people    *database
	sql       statements      // Immutable
	connector *mysqlConnector // Immutable; of both, nil for SQLite
}

func newStore(d, people *database) *Store {
	return &Store{database: d, people: people, sql: newStatements(d.dialect)}
}

// errNotMoved is returned when max_id was not moved in exactly one row, though
// that row was just read and locked: the table's locks don't lock.
var errNotMoved = errors.New("max_id did not move in exactly one row")

var (
	_ segment.Store = (*Store)(nil)
	_ segment.Admin = (*Store)(nil)
)

// Fetch implements segment.Store. A deadlock or a lock wait that timed out is an
// error like any other: nothing was taken, and the caller may try again.
//
// What holds, with any number of daemons and of Java Leaf clients (which run
// `UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = ?` and then read
// max_id, in one transaction) on the table:
//
//  1. The row is locked when it is read, so no other client moves max_id between our
//     reading and our commit, at any isolation level: a locking read sees
//     what was committed last. On SQLite the transaction has the file's write
//     lock from its first statement.
//  2. max_id is moved only from the value that was read, in exactly one row. So
//     even where a lock was no lock, two fetches can't both move it.
//  3. What the column then holds is what was written. A narrow column that
//     clips a value, a floating one or a trigger would otherwise hand the next
//     fetch a range that overlaps ours.
//  4. A fetch that is refused is rolled back, and every check of the row comes
//     before the first write.
//  5. The range is returned only after the commit was confirmed.
//  6. On MySQL a fetch is three round trips: the transaction's begin with the locking
//     read, the write with the reading back, and the commit. segment.Answered tells of each.
//  7. The row is that of the tag, byte for byte.
//  8. Nothing is taken from a server that is read-only, though our account may
//     write there: of a demoted primary the commit is lost. It is asked with the
//     row, and again after the last write; between that and the commit it may still
//     be demoted.
func (s *Store) Fetch(ctx context.Context, tag string, want, floor int64) (segment.Range, error) {
	return s.fetch(ctx, tag, want, beginAt(floor, false))
}

// beginAt is a Dispose that reserves once.
func beginAt(floor int64, above bool) segment.Dispose {
	return func(reserve func(int64, bool) (segment.Range, error)) error {
		_, err := reserve(floor, above)
		return err
	}
}

// FetchGuarded implements segment.Store, as Fetch does. Until the commit other fetches of the
// tag wait for dispose; in a SQLite file those of all tags would, so that one is asked after it.
func (s *Store) FetchGuarded(ctx context.Context, tag string, want int64, dispose segment.Dispose) (segment.Range, error) {
	if s.dialect.together {
		return s.fetch(ctx, tag, want, dispose)
	}
	var taken segment.Range
	err := dispose(func(floor int64, above bool) (_ segment.Range, err error) {
		if taken == (segment.Range{}) || taken.Lo < floor {
			taken, err = s.fetch(ctx, tag, want, beginAt(floor, above))
		}
		return taken, err
	})
	if err != nil {
		return segment.Range{}, err
	}
	return taken, nil
}

// refusedError is an error of a caller's function: the database has answered, and nothing is wrong
// with its connection.
type refusedError struct{ error }

func (s *Store) fetch(ctx context.Context, tag string, want int64, dispose segment.Dispose) (segment.Range, error) {
	var taken segment.Range
	var row lockedRow
	begin := func(conn *sql.Conn) (err error) {
		statement := s.sql.beginRow
		if !s.dialect.together {
			statement = s.sql.lockRow
			if _, err = conn.ExecContext(ctx, s.dialect.begin); err != nil {
				return err
			}
		}
		row, err = s.lockRow(ctx, conn, statement, tag)
		return err
	}
	err := s.writeFrom(ctx, begin, func(conn *sql.Conn) error {
		maxID, step, err := row.values()
		if err != nil {
			return err
		}
		fix := func(column string, to int64) string { return s.dialect.fix(tag, column, to) }
		at, failed := maxID, error(nil)
		err = dispose(func(floor int64, above bool) (_ segment.Range, err error) {
			if taken, err = segment.Reserve(maxID, step, want, floor, above, fix); err == nil && at != taken.Hi {
				err = s.moveMaxID(ctx, conn, tag, at, taken.Hi)
			}
			at, failed = taken.Hi, err
			return taken, err
		})
		if err != nil && failed == nil {
			return refusedError{err}
		}
		return err
	})
	if err != nil {
		return segment.Range{}, s.fail(ctx, err, "fetch a range of tag "+quote(tag))
	}
	return taken, nil
}

// lockedRow is a row that no other client can change until the transaction ends.
type lockedRow struct {
	maxID, step sql.NullString
	description sql.NullString // by lockWhole
	updated     any            // by lockWhole; for timeOf
	rows        int            // how many rows have the tag, at least 1
}

// isOn tells whether a server's variable is on, in any of the forms that servers have.
func isOn(value string) bool { return value != "0" && !strings.EqualFold(value, "OFF") }

// lockRow reads the row of tag and locks it, by the statement lockRow or lockWhole;
// ErrReadOnly, ErrUnknownTag.
func (s *Store) lockRow(ctx context.Context, conn *sql.Conn, statement, tag string) (lockedRow, error) {
	var locked lockedRow
	if !utf8.ValidString(tag) { // no column of text holds it, and each server says so in its own way
		return locked, segment.ErrUnknownTag
	}
	rows, err := conn.QueryContext(ctx, statement, tag, tag)
	if err != nil && s.verdict(err) == verdictForeign {
		return locked, fmt.Errorf("%w: %w", segment.ErrUnknownTag, err)
	}
	if err != nil {
		return locked, err
	}
	defer rows.Close()
	for rows.Next() {
		var readOnly string
		if err := rows.Scan(&locked.maxID, &locked.step, &readOnly, &locked.description, &locked.updated); err != nil {
			return locked, err
		}
		if isOn(readOnly) {
			return locked, segment.ErrReadOnly
		}
		locked.rows++
	}
	if err := rows.Err(); err != nil {
		return locked, err
	}
	if locked.rows > 0 {
		return locked, nil
	}
	if err := s.refuseReadOnly(ctx, conn); err != nil { // what lags has no word on what there is
		return locked, err
	}
	return locked, segment.ErrUnknownTag
}

// refuseReadOnly asks where no row tells; ErrReadOnly.
func (s *Store) refuseReadOnly(ctx context.Context, conn *sql.Conn) error {
	var readOnly string
	err := conn.QueryRowContext(ctx, s.sql.readOnly).Scan(&readOnly)
	if err == nil && isOn(readOnly) {
		return segment.ErrReadOnly
	}
	return err
}

// values returns max_id and step; ErrBadRow.
func (r lockedRow) values() (maxID, step int64, err error) {
	if r.rows != 1 {
		return 0, 0, fmt.Errorf("%w: there are %d rows of the tag; biz_tag has to be the primary key", segment.ErrBadRow, r.rows)
	}
	if maxID, err = integerColumn("max_id", r.maxID); err != nil {
		return 0, 0, err
	}
	step, err = integerColumn("step", r.step)
	return maxID, step, err
}

// moveMaxID writes to to the row, which is at from, and makes sure of it.
func (s *Store) moveMaxID(ctx context.Context, conn *sql.Conn, tag string, from, to int64) error {
	var stored sql.NullString
	var readOnly string
	var moved int64
	if s.dialect.together {
		err := conn.QueryRowContext(ctx, s.sql.moveRow, to, tag, tag, from, tag, tag).Scan(&stored, &readOnly, &moved)
		if err != nil && !errors.Is(err, sql.ErrNoRows) { // without a row none was moved
			return fmt.Errorf("move max_id: %w", s.asBadRow(err))
		}
		segment.Answered(ctx)
	} else {
		result, err := conn.ExecContext(ctx, s.sql.take, to, tag, tag, from)
		if err != nil {
			return s.asBadRow(err)
		}
		if moved, err = result.RowsAffected(); err != nil {
			return err
		}
		if err := conn.QueryRowContext(ctx, s.sql.readBack, tag, tag).Scan(&stored, &readOnly); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("read max_id back: %w", err)
		}
	}
	if moved != 1 {
		return fmt.Errorf("%w: moving it from %d to %d changed %d rows", errNotMoved, from, to, moved)
	}
	if isOn(readOnly) {
		return segment.ErrReadOnly
	}
	if stored.String != decimal(to) {
		return fmt.Errorf("%w: max_id reads %.40q after %d was written; the column has to be BIGINT, and no trigger may change it",
			segment.ErrBadRow, stored.String, to)
	}
	return nil
}

// asBadRow returns err as ErrBadRow when a column didn't take a value.
func (s *Store) asBadRow(err error) error {
	if err != nil && s.verdict(err) == verdictBadValue {
		return fmt.Errorf("%w: %w", segment.ErrBadRow, err)
	}
	return err
}

// Each implements segment.Store: on MySQL, where an index has update_time first, and the server sets
// it, a view of what has changed is read by that. A max_id or step that is NULL or no integer is
// given to fn as -1, so that one spoilt row hides no other; Fetch refuses such a
// row. Rows with a NULL tag are left out. A connection is held while fn runs, so
// fn should not use the Store.
func (s *Store) Each(ctx context.Context, last segment.View, fn func(tag []byte, maxID, step int64) error) (segment.View, error) {
	view, err := s.view(ctx, last)
	var stopped error
	switch {
	case err != nil:
	case view.Whole:
		stopped, err = s.each(ctx, fn, s.sql.each)
	default:
		stopped, err = s.each(ctx, fn, s.sql.each+" WHERE update_time >= ?", last.At.Add(-viewOverlap))
	}
	if stopped != nil {
		return view, stopped
	}
	return view, s.fail(ctx, err, "read the tags")
}

// viewOverlap is how far a view reaches back beyond the one before: a statement has set
// update_time to when it began, and may have waited for its row, 50 s by the server's default,
// and for its commit. So far the clocks of a cluster's nodes may be apart, too.
const viewOverlap = time.Minute

// view returns the view that begins now, which follows last. It is a whole one unless the server is
// the one of last, has run ever since, and its clock has, and the table hasn't been made again.
func (s *Store) view(ctx context.Context, last segment.View) (segment.View, error) {
	view := segment.View{Whole: true}
	if s.dialect.view == "" {
		return view, nil
	}
	var now time.Time
	var tells bool
	err := s.read(ctx, func(rows *sql.Rows) error { return rows.Scan(&now, &view.Source, &tells) }, s.dialect.view)
	if err != nil || !tells {
		return view, err
	}
	segment.Answered(ctx)
	uptime := 0
	err = s.read(ctx, func(rows *sql.Rows) error { return rows.Scan(new(string), &uptime) }, "SHOW GLOBAL STATUS LIKE 'Uptime'")
	segment.Answered(ctx)
	view.At = now
	since := now.Sub(last.At)
	view.Whole = last.At.IsZero() || view.Source != last.Source || since < 0 || time.Duration(uptime)*time.Second <= since+2*time.Second
	return view, err
}

// Find implements segment.Store, as Each does. Where the column can't hold some letter of tags
// those that aren't ASCII are left to Each.
func (s *Store) Find(ctx context.Context, tags []string, fn func(tag []byte, maxID, step int64) error) error {
	find := func(holds func(r rune) bool) (stopped, err error) {
		var args []any
		for _, tag := range tags {
			if utf8.ValidString(tag) && strings.IndexFunc(tag, func(r rune) bool { return !holds(r) }) < 0 {
				args = append(args, tag)
			}
		}
		if len(args) == 0 {
			return nil, nil
		}
		return s.each(ctx, fn, s.sql.each+" WHERE biz_tag IN (?"+strings.Repeat(", ?", len(args)-1)+")", args...)
	}
	stopped, err := find(func(rune) bool { return true })
	if err != nil && s.verdict(err) == verdictForeign {
		stopped, err = find(func(r rune) bool { return r < utf8.RuneSelf })
	}
	if stopped != nil {
		return stopped
	}
	return s.fail(ctx, err, "look for tags")
}

// each calls fn with each row that query finds. It returns fn's error apart from the database's.
func (s *Store) each(ctx context.Context, fn func(tag []byte, maxID, step int64) error, query string, args ...any) (stopped, err error) {
	var tag, maxIDText, stepText sql.RawBytes
	err = s.read(ctx, func(rows *sql.Rows) error {
		if err := rows.Scan(&tag, &maxIDText, &stepText); err != nil {
			return err
		}
		if tag == nil {
			return nil
		}
		maxID, _ := parseInteger(maxIDText)
		step, _ := parseInteger(stepText)
		stopped = fn(tag, maxID, step)
		return stopped
	}, query, args...)
	return stopped, err
}

// Close implements segment.Store.
func (s *Store) Close() error {
	err := s.close()
	if s.people != s.database {
		err = errors.Join(err, s.people.close())
	}
	return err
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// quote returns tag for an error message, not longer than a tag can be.
func quote(tag string) string {
	if len(tag) > segment.MaxTagBytes {
		return strconv.Quote(tag[:segment.MaxTagBytes]) + "…"
	}
	return strconv.Quote(tag)
}
