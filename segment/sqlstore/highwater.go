package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/leafd/leafd/segment"
)

const marksTable = "leaf_marks"

const marksSchema = `CREATE TABLE leaf_marks (
  biz_tag TEXT NOT NULL PRIMARY KEY,
  high INTEGER NOT NULL CHECK (high >= 0)
) STRICT, WITHOUT ROWID;`

const (
	selectMarks = "SELECT biz_tag, high FROM leaf_marks"
	forgetMark  = "DELETE FROM leaf_marks WHERE biz_tag = ?"
	raiseMark   = "INSERT INTO leaf_marks (biz_tag, high) VALUES (?, ?) " +
		"ON CONFLICT (biz_tag) DO UPDATE SET high = max(high, excluded.high)"
)

// HighWater is segment.HighWater in a SQLite file of its own: apart from the segments',
// so that putting an old copy of those back doesn't put back the memory of what
// was used. It is safe for concurrent use.
//
// All marks that wait are recorded in one transaction, and each Raise returns
// after the transaction that has its own: a thousand tags that begin at once cost some
// dozens of disk flushes, not a thousand. A caller that gives up changes nothing for the
// others; its mark may be raised yet.
type HighWater struct {
	db *database

	mu        sync.Mutex
	waiting   []raise // mu protects
	recording bool    // mu protects; a goroutine records what waits, until there is nothing
	recorder  sync.WaitGroup
}

// raise is one call of Raise.
type raise struct {
	tag  string
	high int64
	done chan error // holds one
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
	return &HighWater{db: db}, nil
}

// Marks implements segment.HighWater.
func (m *HighWater) Marks(ctx context.Context, fn func(tag string, high int64)) error {
	err := m.db.read(ctx, func(rows *sql.Rows) error {
		var tag string
		var high int64
		if err := rows.Scan(&tag, &high); err != nil {
			return err
		}
		fn(tag, high)
		return nil
	}, selectMarks)
	return m.db.fail(ctx, err, "read the marks")
}

// Raise implements segment.HighWater. A negative high is an error.
func (m *HighWater) Raise(ctx context.Context, tag string, high int64) error {
	if high < 0 { // an error of its own, and not of all that wait with it
		return fmt.Errorf("raise the mark of tag %s to %d: it is below 0", quote(tag), high)
	}
	if err := ctx.Err(); err != nil {
		return m.db.fail(ctx, err, fmt.Sprintf("raise the mark of tag %s to %d", quote(tag), high))
	}
	r := raise{tag: tag, high: high, done: make(chan error, 1)}
	m.mu.Lock()
	m.waiting = append(m.waiting, r)
	if !m.recording {
		m.recording = true
		m.recorder.Go(m.record)
	}
	m.mu.Unlock()
	var err error
	select {
	case err = <-r.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return m.db.fail(ctx, err, fmt.Sprintf("raise the mark of tag %s to %d", quote(tag), high))
}

// record records what waits, until there is nothing.
func (m *HighWater) record() {
	for {
		m.mu.Lock()
		batch := m.waiting
		m.waiting, m.recording = nil, len(batch) > 0
		m.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		err := m.raiseAll(batch)
		for _, r := range batch {
			r.done <- err
		}
	}
}

func (m *HighWater) raiseAll(batch []raise) error {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	return m.db.write(ctx, func(conn *sql.Conn) error {
		for _, r := range batch {
			if _, err := conn.ExecContext(ctx, raiseMark, r.tag, r.high); err != nil {
				return err
			}
		}
		return nil
	})
}

// Forget removes the marks of tags: made again they may repeat IDs.
func (m *HighWater) Forget(ctx context.Context, tags []string) error {
	err := m.db.write(ctx, func(conn *sql.Conn) error {
		for _, tag := range tags {
			if _, err := conn.ExecContext(ctx, forgetMark, tag); err != nil {
				return err
			}
		}
		return nil
	})
	return m.db.fail(ctx, err, "forget the marks")
}

// Close implements segment.HighWater. No Raise begins any more.
func (m *HighWater) Close() error {
	m.recorder.Wait()
	return m.db.close()
}
