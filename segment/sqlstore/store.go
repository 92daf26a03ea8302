package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/leafd/leafd/segment"
)

// Store is the table leaf_alloc in one database. Open and OpenSQLite make
// one. It is safe for concurrent use.
type Store struct {
	*database
	servers *atomic.Pointer[servers] // nil for SQLite

	known   atomic.Pointer[form] // what is known of the table; nil before it was read, or once an answer tells that it has changed
	old     atomic.Bool          // known is older than factsAge
	reading sync.Mutex           // one reads the table at a time

	noSkip  atomic.Bool     // the server doesn't know SKIP LOCKED
	closing context.Context //nolint:containedctx // ends what Warm has begun
	stop    context.CancelFunc
	warming sync.Mutex // a connection is being opened
}

// factsAge is for how long a table is taken to be as it was.
const factsAge = 10 * time.Minute

// errNotMoved is returned when not exactly the rows were changed that were read and locked: the table's locks
// don't lock, or the session has lost its transaction.
var errNotMoved = errors.New("not the rows that were locked have changed")

var (
	_ segment.Store = (*Store)(nil)
	_ segment.Admin = (*Store)(nil)
	_ segment.Tx    = (*tx)(nil)
)

func newStore(d *database) *Store {
	s := &Store{database: d}
	s.closing, s.stop = context.WithCancel(context.Background())
	return s
}

// table returns what is known of the table; with fresh not what is old.
func (s *Store) table(ctx context.Context, fresh bool) (*form, error) {
	if f := s.known.Load(); f != nil && (!fresh || !s.old.Load()) {
		return f, nil
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	if f := s.known.Load(); f != nil && !s.old.Load() {
		return f, nil
	}
	facts, err := readTable(ctx, s.database)
	if err != nil {
		return nil, err
	}
	f, err := facts.form()
	if err != nil {
		s.known.Store(nil)
		return nil, err
	}
	s.known.Store(f)
	s.old.Store(false)
	time.AfterFunc(factsAge, func() { s.old.Store(true) })
	return f, nil
}

// wrap is database.wrap, and forgets what is known of a table that has changed.
func (s *Store) wrap(ctx context.Context, err error, doing string) error {
	if err != nil && s.servers != nil && s.verdict(err).stale {
		s.known.Store(nil)
	}
	return s.database.wrap(ctx, err, doing)
}

// tx is segment.Tx.
//
// What holds, with any number of daemons and of Java Leaf clients (which run
// `UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = ?` and then read
// max_id, in one transaction) on the table:
//
//  1. The rows are locked when they are read, so no other client moves max_id between our
//     reading and our commit, at any isolation level: a locking read sees
//     what was committed last. On SQLite the transaction has the file's write
//     lock from its first statement.
//  2. max_id is moved only from the value that was read, in exactly as many rows as tags. So
//     even where a lock was no lock, two fetches can't both move it.
//  3. What the column then holds is what was written: it is an integer of a type that takes the value, and no
//     trigger that our user may see writes it.
//  4. A row is that of its tag, byte for byte, when it is read and when it is moved.
//  5. On MySQL a fetch is three round trips: the locking read, which begins the transaction, the write,
//     and the commit.
//  6. Nothing is taken from a server that is read-only, though our account may
//     write there: of a demoted primary the commit is lost. It is asked with the
//     row; between that and the commit it may still be demoted.
type tx struct {
	*session
	store   *Store
	form    *form
	rows    []segment.Row
	skipped []string
	server  string
}

// Begin implements segment.Store.
func (s *Store) Begin(ctx context.Context, tags []string) (segment.Tx, error) {
	t, err := s.lockRows(ctx, s.fetch, tags, false)
	if err != nil {
		return nil, s.wrap(ctx, err, "lock the rows of "+quote(tags...))
	}
	return t, nil
}

// lockRows begins a transaction of p that locks the rows of tags, whole with description and update_time.
func (s *Store) lockRows(ctx context.Context, p *sql.DB, tags []string, whole bool) (*tx, error) {
	f, err := s.table(ctx, false)
	if err != nil {
		return nil, err
	}
	t := &tx{store: s, form: f}
	if t.session, err = s.session(ctx, p); err != nil {
		return nil, err
	}
	asked := tags
	tags = slices.Compact(slices.Sorted(slices.Values(valid(tags))))
	skip := len(tags) > 1 && f.skipLocked != ""
	if skip && s.noSkip.Load() {
		t.skipped, tags, skip = tags[1:], tags[:1], false
	}
	var on string
	t.rows, on, t.server, err = t.scan(ctx, f.lock(tags, whole, skip), asked)
	if skip && numberOf(err) == erParse {
		s.noSkip.Store(true)
		t.end(ctx)
		return s.lockRows(ctx, p, asked, whole)
	}
	if err == nil && len(t.rows) == 0 && len(tags) < 2 { // what lags has no word on what there is
		err = t.query(ctx, "SELECT "+f.readOnly, func(rows *sql.Rows) error { return rows.Scan(&on) })
	}
	if err == nil && isOn(on) {
		err = t.fail(segment.ErrReadOnly)
	}
	if err != nil {
		t.end(ctx)
		return nil, err
	}
	if skip {
		t.skipped = slices.DeleteFunc(tags, func(tag string) bool {
			return slices.ContainsFunc(t.rows, func(row segment.Row) bool { return row.Tag == tag })
		})
	}
	return t, nil
}

// valid returns those of tags that a column of text can hold: each server says in its own way that it can't. There is
// always one.
func valid(tags []string) []string {
	tags = slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return !utf8.ValidString(tag) })
	if len(tags) == 0 {
		return []string{""}
	}
	return tags
}

// scan returns those of the rows that query finds that have one of tags as their name, byte for byte, or all where tags is
// nil; and what names the server.
func (s *session) scan(ctx context.Context, query string, tags []string) (list []segment.Row, readOnly, server string, err error) {
	var tag, maxID, step, description, on, name sql.NullString
	var updated any
	err = s.query(ctx, query, func(rows *sql.Rows) error {
		err := rows.Scan(&tag, &maxID, &step, &description, &updated, &on, &name)
		readOnly, server = on.String, name.String
		if tag.Valid && (tags == nil || slices.Contains(tags, tag.String)) {
			list = append(list, segment.Row{Tag: tag.String, MaxID: integer(maxID), Step: integer(step), Description: description.String, UpdateTime: timeOf(updated)})
		}
		return err
	})
	return list, readOnly, server, err
}

// integer returns the value of a column, or -1 for NULL and what is no integer of 64 bits, in the one way that
// FormatInt writes it: that is no valid value of max_id or step, so each reader refuses the row.
func integer(v sql.NullString) int64 {
	n, err := strconv.ParseInt(v.String, 10, 64)
	if err != nil || decimal(n) != v.String {
		return -1
	}
	return n
}

// timeOf returns an update_time as a time, or the zero time.
func timeOf(v any) time.Time {
	switch v := v.(type) {
	case time.Time:
		return v.UTC()
	case []byte:
		return timeOf(string(v))
	case string:
		t, _ := time.Parse(time.DateTime, v)
		return t
	}
	return time.Time{}
}

// Rows implements segment.Tx.
func (t *tx) Rows() []segment.Row { return t.rows }

// Skipped implements segment.Tx.
func (t *tx) Skipped() []string { return t.skipped }

// Server implements segment.Tx.
func (t *tx) Server() string { return t.server }

// Move implements segment.Tx.
func (t *tx) Move(ctx context.Context, moves []segment.Move) error {
	var tags []string
	var err error
	for _, m := range moves {
		tags = append(tags, m.Tag)
		if m.To > t.form.maxID {
			err = fmt.Errorf("%w: max_id can't be %d: its column ends at %d; it has to be BIGINT", segment.ErrBadRow, m.To, t.form.maxID)
		}
	}
	if err == nil && len(moves) > 0 {
		err = t.change(ctx, t.form.move(moves), len(moves))
	}
	return t.store.wrap(ctx, err, "move max_id of "+quote(tags...))
}

// change runs a statement that has to find that many rows.
func (t *tx) change(ctx context.Context, statement string, rows int) error {
	n, err := t.exec(ctx, statement)
	if err == nil && n != int64(rows) {
		err = t.fail(fmt.Errorf("%w: %d instead of %d", errNotMoved, n, rows))
	}
	return err
}

// Commit implements segment.Tx.
func (t *tx) Commit(ctx context.Context) error { return t.store.wrap(ctx, t.commit(ctx), "commit") }

// Rollback implements segment.Tx.
func (t *tx) Rollback(ctx context.Context) {
	if t.open {
		t.end(ctx)
	}
}

// Find implements segment.Store. Of no tags it asks the database all the same.
func (s *Store) Find(ctx context.Context, tags []string) ([]segment.Row, error) {
	list, err := s.rowsOf(ctx, s.look, append([]string{}, tags...), func(f *form) string { return f.selects(false, false) + whereTags(f.key, valid(tags)) })
	return list, s.wrap(ctx, err, "look for tags")
}

// rowsOf returns the rows that a query of p finds; see scan.
func (s *Store) rowsOf(ctx context.Context, p *sql.DB, tags []string, query func(f *form) string) ([]segment.Row, error) {
	f, err := s.table(ctx, true)
	if err != nil {
		return nil, err
	}
	on, err := s.session(ctx, p)
	if err != nil {
		return nil, err
	}
	defer on.end(ctx)
	list, _, _, err := on.scan(ctx, query(f), tags)
	return list, err
}

// Warm implements segment.Store.
func (s *Store) Warm() {
	if s.servers == nil || s.fetch.Stats().OpenConnections > 0 || !s.warming.TryLock() {
		return
	}
	go func() {
		defer s.warming.Unlock()
		if conn, err := s.fetch.Conn(s.closing); err == nil { // a fetch will tell why there is none
			_ = conn.Close()
		}
	}()
}

// Close implements segment.Store.
func (s *Store) Close() error {
	s.stop()
	s.warming.Lock()
	defer s.warming.Unlock()
	return s.close()
}

// quote returns tags for an error message, each not longer than a tag can be, and the first alone.
func quote(tags ...string) string {
	if len(tags) == 0 {
		return "no tag"
	}
	text := "tag " + strconv.Quote(tags[0][:min(len(tags[0]), segment.MaxTagBytes)])
	if len(tags) > 1 {
		text += fmt.Sprintf(" and %d more", len(tags)-1)
	}
	return text
}
