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
// as the zero time. Rows whose tag is NULL are left out.
func (s *Store) List(ctx context.Context) ([]segment.Row, error) {
	var list []segment.Row
	err := s.read(ctx, func(rows *sql.Rows) error {
		var tag, maxID, step, description sql.NullString
		var updated any
		if err := rows.Scan(&tag, &maxID, &step, &description, &updated); err != nil {
			return err
		}
		if !tag.Valid {
			return nil
		}
		row := segment.Row{Tag: tag.String, Description: description.String, UpdateTime: timeOf(updated)}
		row.MaxID, _ = parseInteger([]byte(maxID.String))
		row.Step, _ = parseInteger([]byte(step.String))
		list = append(list, row)
		return nil
	}, s.sql.list)
	if err != nil {
		return nil, s.fail(ctx, err, "list the tags")
	}
	slices.SortFunc(list, func(a, b segment.Row) int { return cmp.Compare(a.Tag, b.Tag) })
	return list, nil
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
		err = s.write(ctx, func(conn *sql.Conn) error {
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

// Update implements segment.Admin.
func (s *Store) Update(ctx context.Context, tag string, step *int64, description *string) error {
	err := s.write(ctx, func(conn *sql.Conn) error {
		return s.update(ctx, conn, tag, step, description)
	})
	return s.fail(ctx, err, "update tag "+quote(tag))
}

func (s *Store) update(ctx context.Context, conn *sql.Conn, tag string, step *int64, description *string) error {
	row, err := s.lockRow(ctx, conn, tag)
	if err != nil {
		return err
	}
	maxID, _ := parseInteger([]byte(row.maxID.String)) // one that can't be read is no reason against fixing the step
	if err := segment.CheckChange(maxID, step, description); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, s.sql.update, step, description, tag, tag)
	return s.asBadRow(err)
}

// Delete implements segment.Admin. It asks nothing of the row's values.
func (s *Store) Delete(ctx context.Context, tag string) error {
	err := s.write(ctx, func(conn *sql.Conn) error {
		if _, err := s.lockRow(ctx, conn, tag); err != nil {
			return err
		}
		_, err := conn.ExecContext(ctx, s.sql.remove, tag, tag)
		return err
	})
	return s.fail(ctx, err, "delete tag "+quote(tag))
}
