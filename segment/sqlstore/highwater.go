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
	selectMarks = "SELECT biz_tag, high FROM leaf_marks"
	raiseMark   = "INSERT INTO leaf_marks (biz_tag, high) VALUES (?, ?) " +
		"ON CONFLICT (biz_tag) DO UPDATE SET high = max(high, excluded.high)"
)

// HighWater is segment.HighWater in a SQLite file of its own: apart from the segments',
// so that putting an old copy of those back doesn't put back the memory of what
// was used. It is safe for concurrent use.
type HighWater struct {
	db *database
}

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
	err := m.db.write(ctx, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, raiseMark, tag, high)
		return err
	})
	return m.db.fail(ctx, err, fmt.Sprintf("raise the mark of tag %s to %d", quote(tag), high))
}

// Close implements segment.HighWater.
func (m *HighWater) Close() error {
	return m.db.close()
}
