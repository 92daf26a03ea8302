package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/leafd/leafd/segment"
)

// List implements segment.Admin, in the order of the tags' bytes. A max_id or
// step that is NULL or no integer reads -1, an update_time that is none reads
// as the zero time. Rows with a NULL tag are left out.
func (s *Store) List(ctx context.Context) ([]segment.Row, error) {
	var list []segment.Row
	err := s.people.read(ctx, func(rows *sql.Rows) error {
		var tag, maxID, step, description sql.NullString
		var updated any
		if err := rows.Scan(&tag, &maxID, &step, &description, &updated); err != nil {
			return err
		}
		if !tag.Valid {
			return nil
		}
		list = append(list, rowOf(tag.String, maxID, step, description, updated))
		return nil
	}, s.sql.list)
	if err != nil {
		return nil, s.fail(ctx, err, "list the tags")
	}
	slices.SortFunc(list, func(a, b segment.Row) int { return cmp.Compare(a.Tag, b.Tag) })
	return list, nil
}

// rowOf makes a row of its columns; what can't be read of max_id and step is -1.
func rowOf(tag string, maxID, step, description sql.NullString, updated any) segment.Row {
	row := segment.Row{Tag: tag, Description: description.String, UpdateTime: timeOf(updated)}
	row.MaxID, _ = parseInteger([]byte(maxID.String))
	row.Step, _ = parseInteger([]byte(step.String))
	return row
}

// timeOf returns an update_time as a time, or the zero time.
func timeOf(v any) time.Time {
	switch v := v.(type) {
	case time.Time:
		return v.UTC()
	case []byte:
		return timeOf(string(v))
	case string:
		if t, err := time.Parse(time.DateTime, v); err == nil {
			return t
		}
	}
	return time.Time{}
}

// Create implements segment.Admin; the row's UpdateTime is the database's. Where
// the table's collation takes two tags for one, the second is ErrTagExists.
func (s *Store) Create(ctx context.Context, r segment.Row) error {
	err := segment.CheckRow(r)
	if err == nil {
		err = s.people.write(ctx, func(conn *sql.Conn) error {
			if err := s.refuseReadOnly(ctx, conn); err != nil {
				return err
			}
			_, err := conn.ExecContext(ctx, s.sql.insert, r.Tag, r.MaxID, r.Step, r.Description)
			if err != nil && s.verdict(err) == verdictDuplicate {
				return fmt.Errorf("%w: %w", segment.ErrTagExists, err)
			}
			return s.asBadRow(err)
		})
	}
	return s.fail(ctx, err, "create tag "+quote(r.Tag))
}

// Update implements segment.Admin. What can't be read of the row is -1 in it.
func (s *Store) Update(ctx context.Context, tag string, step *int64, description *string) (segment.Row, error) {
	return s.change(ctx, "update", tag, nil, func(conn *sql.Conn, before segment.Row) error {
		// A max_id that can't be read is no reason against fixing the step.
		if err := segment.CheckChange(before.MaxID, step, description); err != nil {
			return err
		}
		_, err := conn.ExecContext(ctx, s.sql.update, step, description, tag, tag)
		return s.asBadRow(err)
	})
}

// SetMaxID implements segment.Admin. A max_id that can't be read is no reason against it.
func (s *Store) SetMaxID(ctx context.Context, tag string, maxID int64, before func(segment.Row) error) (segment.Row, error) {
	return s.change(ctx, "set max_id of", tag, before, func(conn *sql.Conn, row segment.Row) error {
		if err := segment.CheckMaxID(maxID, row.Step); err != nil {
			return err
		}
		_, err := conn.ExecContext(ctx, s.sql.set, maxID, tag, tag)
		return s.asBadRow(err)
	})
}

// Delete implements segment.Admin. It asks nothing of the row's values; see Update.
func (s *Store) Delete(ctx context.Context, tag string, before func(segment.Row) error) (segment.Row, error) {
	return s.change(ctx, "delete", tag, before, func(conn *sql.Conn, _ segment.Row) error {
		_, err := conn.ExecContext(ctx, s.sql.remove, tag, tag)
		return err
	})
}

// change runs before and do with the locked row of tag, and returns that row. An error of before is
// returned as it is.
func (s *Store) change(ctx context.Context, doing, tag string, before func(segment.Row) error, do func(conn *sql.Conn, row segment.Row) error) (row segment.Row, err error) {
	err = s.people.write(ctx, func(conn *sql.Conn) error {
		locked, err := s.lockRow(ctx, conn, s.sql.lockWhole, tag)
		if err != nil {
			return err
		}
		row = rowOf(tag, locked.maxID, locked.step, locked.description, locked.updated)
		if before != nil {
			if err := before(row); err != nil {
				return refusedError{err}
			}
		}
		return do(conn, row)
	})
	if err != nil {
		return segment.Row{}, s.fail(ctx, err, doing+" tag "+quote(tag))
	}
	return row, nil
}
