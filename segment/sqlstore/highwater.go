package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/segment"
)

const marksTable = "marks"

const marksSchema = `CREATE TABLE stores (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, loss TEXT NOT NULL DEFAULT '', server TEXT NOT NULL DEFAULT '') STRICT;
CREATE TABLE marks (
  store INTEGER NOT NULL REFERENCES stores (id), biz_tag TEXT NOT NULL, high INTEGER NOT NULL CHECK (high >= 0),
  behind INTEGER NOT NULL, deleted INTEGER NOT NULL, PRIMARY KEY (store, biz_tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX behind ON marks (store, biz_tag) WHERE behind;`

const (
	addStore    = "INSERT INTO stores (name) VALUES (?) ON CONFLICT DO NOTHING"
	selectStore = "SELECT id, (SELECT count(*) FROM marks WHERE store <> id) FROM stores WHERE name = ?"
	selectMarks = "SELECT biz_tag, high, behind, deleted FROM marks WHERE store = "
	selectNote  = "SELECT loss, server FROM stores WHERE id = "
	setNote     = "UPDATE stores SET loss = ?, server = ? WHERE id = ?"
	raiseMark   = "INSERT INTO marks (store, biz_tag, high, behind, deleted) VALUES (?, ?, ?, ?, ?) " +
		"ON CONFLICT DO UPDATE SET high = max(high, excluded.high), behind = max(behind, excluded.behind), deleted = excluded.deleted"
	endBehind = "UPDATE marks SET behind = 0 WHERE store = ? AND biz_tag = ? AND high <= ?"
)

// HighWater is segment.HighWater in a SQLite file of its own: apart from the segments',
// so that putting an old copy of those back doesn't put back the memory of what
// was used. It is safe for concurrent use.
//
// All marks that wait are recorded in one transaction, and each Raise returns
// after the transaction that has its own: a thousand tags that begin at once cost some
// dozens of disk flushes, not a thousand. A caller that gives up changes nothing for the
// others; its marks may be raised yet.
type HighWater struct {
	db    *database
	store atomic.Int64 // the ID of what Use has named, 0 before

	mu        sync.Mutex
	waiting   []*raise      // mu protects
	recording chan struct{} // holds one while marks are recorded
}

// raise is one call of Raise.
type raise struct {
	store int64
	marks []segment.Mark
	err   error
	done  chan struct{} // closed once err says how it went
}

// recordTimeout bounds a transaction of marks.
const recordTimeout = 10 * time.Second

var _ segment.HighWater = (*HighWater)(nil)

// OpenHighWater returns the HighWater in the SQLite file at path, and makes the file
// where there is none. A file that is empty, damaged or of another program is an
// error, as with OpenSQLite.
func OpenHighWater(path string) (*HighWater, error) {
	db, err := openFile(path, marksTable, marksSchema)
	if err != nil {
		return nil, err
	}
	return &HighWater{db: db, recording: make(chan struct{}, 1)}, nil
}

// errNoStore is returned before Use.
var errNoStore = errors.New("no store was named for these marks")

// of runs fn with the ID of the store of Use, and says what failed.
func (m *HighWater) of(ctx context.Context, doing string, fn func(store int64) error) error {
	err := errNoStore
	if store := m.store.Load(); store > 0 {
		err = fn(store)
	}
	return m.db.wrap(ctx, err, doing)
}

// Use implements segment.HighWater.
func (m *HighWater) Use(ctx context.Context, store string) (others int, err error) {
	var id int64
	err = m.db.write(ctx, m.db.fetch, func(s *session) error {
		if _, err := s.exec(ctx, addStore, store); err != nil {
			return err
		}
		return s.query(ctx, selectStore, func(rows *sql.Rows) error { return rows.Scan(&id, &others) }, store)
	})
	if err == nil {
		m.store.Store(id)
	}
	return others, m.db.wrap(ctx, err, "look for the marks of "+store)
}

// marks returns the marks of the store that where picks.
func (m *HighWater) marks(ctx context.Context, where string) (marks []segment.Mark, err error) {
	err = m.of(ctx, "read the marks", func(store int64) error {
		return m.db.read(ctx, m.db.look, selectMarks+decimal(store)+where, func(rows *sql.Rows) error {
			var mark segment.Mark
			err := rows.Scan(&mark.Tag, &mark.High, &mark.Behind, &mark.Deleted)
			marks = append(marks, mark)
			return err
		})
	})
	return marks, err
}

// Get implements segment.HighWater.
func (m *HighWater) Get(ctx context.Context, tags []string) ([]segment.Mark, error) {
	return m.marks(ctx, strings.Replace(whereTags(sqliteDialect.text, tags), "WHERE", "AND", 1))
}

// Page implements segment.HighWater.
func (m *HighWater) Page(ctx context.Context, after string, limit int, behind bool) ([]segment.Mark, error) {
	where := ""
	if after != "" {
		where = " AND biz_tag > " + literal(sqliteDialect.text, after)
	}
	if behind {
		where += " AND behind"
	}
	return m.marks(ctx, where+fmt.Sprintf(" ORDER BY biz_tag LIMIT %d", limit))
}

// Note implements segment.HighWater.
func (m *HighWater) Note(ctx context.Context) (n segment.Note, err error) {
	err = m.of(ctx, "read the note of the marks", func(store int64) error {
		return m.db.read(ctx, m.db.look, selectNote+decimal(store), func(rows *sql.Rows) error { return rows.Scan(&n.Loss, &n.Server) })
	})
	return n, err
}

// SetNote implements segment.HighWater.
func (m *HighWater) SetNote(ctx context.Context, n segment.Note) error {
	return m.of(ctx, "set the note of the marks", func(store int64) error {
		return m.each(ctx, setNote, [][]any{{n.Loss, n.Server, store}})
	})
}

// Raised implements segment.HighWater.
func (m *HighWater) Raised(ctx context.Context, marks []segment.Mark) error {
	return m.of(ctx, "note which marks the guard has", func(store int64) error {
		var args [][]any
		for _, mark := range marks {
			args = append(args, []any{store, mark.Tag, mark.High})
		}
		return m.each(ctx, endBehind, args)
	})
}

// each runs a statement with each of args, in one transaction.
func (m *HighWater) each(ctx context.Context, statement string, args [][]any) error {
	return m.db.write(ctx, m.db.fetch, func(s *session) error {
		for _, a := range args {
			if _, err := s.exec(ctx, statement, a...); err != nil {
				return err
			}
		}
		return nil
	})
}

// Raise implements segment.HighWater. A negative High is an error of its own, and not of all that wait with it.
func (m *HighWater) Raise(ctx context.Context, marks []segment.Mark) error {
	return m.of(ctx, "raise marks", func(store int64) error {
		for _, mark := range marks {
			if mark.High < 0 {
				return fmt.Errorf("that of %s to %d: it is below 0", quote(mark.Tag), mark.High)
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return m.raise(ctx, &raise{store: store, marks: marks, done: make(chan struct{})})
	})
}

// raise waits until r was recorded with all that wait.
func (m *HighWater) raise(ctx context.Context, r *raise) error {
	m.mu.Lock()
	m.waiting = append(m.waiting, r)
	m.mu.Unlock()
	for recording := m.recording; ; recording = nil {
		select {
		case <-r.done:
			return r.err
		case <-ctx.Done():
			return ctx.Err()
		case recording <- struct{}{}:
			go m.record() //nolint:gosec // it records those of other callers, too
		}
	}
}

// record records what waits.
func (m *HighWater) record() {
	defer func() { <-m.recording }()
	m.mu.Lock()
	batch := m.waiting
	m.waiting = nil
	m.mu.Unlock()
	var args [][]any
	for _, r := range batch {
		for _, mark := range r.marks {
			args = append(args, []any{r.store, mark.Tag, mark.High, mark.Behind, mark.Deleted})
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	err := m.each(ctx, raiseMark, args)
	for _, r := range batch {
		r.err = err
		close(r.done)
	}
}

// Close implements segment.HighWater. No Raise begins any more.
func (m *HighWater) Close() error {
	m.recording <- struct{}{}
	return m.db.close()
}
