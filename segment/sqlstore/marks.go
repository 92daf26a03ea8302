package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/leafd/leafd/segment"
)

const marksTable = "leaf_marks"

const marksSchema = `CREATE TABLE leaf_marks (
  biz_tag TEXT NOT NULL PRIMARY KEY,
  high INTEGER NOT NULL CHECK (high >= 0)
) STRICT, WITHOUT ROWID;`

const (
	selectMark = "SELECT high FROM leaf_marks WHERE biz_tag = ?"
	raiseMark  = "INSERT INTO leaf_marks (biz_tag, high) VALUES (?, ?) " +
		"ON CONFLICT (biz_tag) DO UPDATE SET high = max(high, excluded.high)"
)

// Marks is segment.Marks in a SQLite file of its own: apart from the segments',
// so that putting an old copy of those back doesn't put back the memory of what
// was used. It is safe for concurrent use.
type Marks struct {
	db *database
}

var _ segment.Marks = (*Marks)(nil)

// OpenMarks returns the Marks in the SQLite file at path, and makes the file
// where there is none. A file that is empty, damaged or of another program is an
// error, as with OpenSQLite.
func OpenMarks(path string) (*Marks, error) {
	db, err := openFile(path, marksTable, marksSchema)
	if err != nil {
		return nil, err
	}
	return &Marks{db: db}, nil
}

// High implements segment.Marks.
func (m *Marks) High(ctx context.Context, tag string) (int64, error) {
	var high int64
	err := m.db.read(ctx, func(rows *sql.Rows) error { return rows.Scan(&high) }, selectMark, tag)
	if err != nil {
		return 0, m.db.fail(ctx, err, "read the mark of tag "+quote(tag))
	}
	return high, nil
}

// Raise implements segment.Marks. A negative high is an error.
func (m *Marks) Raise(ctx context.Context, tag string, high int64) error {
	err := m.db.write(ctx, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, raiseMark, tag, high)
		return err
	})
	return m.db.fail(ctx, err, fmt.Sprintf("raise the mark of tag %s to %d", quote(tag), high))
}

// Close implements segment.Marks.
func (m *Marks) Close() error {
	return m.db.close()
}
