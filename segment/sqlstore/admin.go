package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/leafd/leafd/segment"
)

// Page implements segment.Admin. A max_id or step that is NULL or no integer reads -1, an update_time that is
// none reads as the zero time. Rows with a NULL tag are left out.
func (s *Store) Page(ctx context.Context, after, part string, limit int) ([]segment.Row, error) {
	list := []segment.Row{}
	after, part = strings.ToValidUTF8(after, "?"), lowerASCII(strings.ToValidUTF8(part, "?"))
	for more := true; more && len(list) < limit; {
		asked := limit - len(list)
		rows, err := s.rowsOf(ctx, s.list, nil, func(f *form) string { return f.page(after, part, asked) })
		if err != nil {
			return nil, s.wrap(ctx, err, "list the tags")
		}
		for _, row := range rows {
			after = row.Tag
			if strings.Contains(lowerASCII(row.Tag), part) {
				list = append(list, row)
			}
		}
		more = len(rows) == asked
	}
	return list, nil
}

// lowerASCII returns s with its ASCII letters in lower case.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

// Get implements segment.Admin; see Page.
func (s *Store) Get(ctx context.Context, tag string) (segment.Row, error) {
	rows, err := s.rowsOf(ctx, s.list, []string{tag}, func(f *form) string { return f.selects(true, false) + whereTags(f.key, valid([]string{tag})) })
	if err == nil && len(rows) == 0 {
		err = segment.ErrUnknownTag
	}
	if err != nil {
		return segment.Row{}, s.wrap(ctx, err, "read "+quote(tag))
	}
	return rows[0], nil
}

// errNoDescription is returned where the table has no column for what is to be written.
var errNoDescription = fmt.Errorf("%w: table %s has no column for a description", segment.ErrBadRow, table)

// Create implements segment.Admin; the row's UpdateTime is the database's. Where
// the table's collation takes two tags for one, the second is ErrTagExists. Where no key keeps a tag from having
// two rows, the new row is looked for before the commit, locked: of two that create it at once one waits for
// the other, or is the victim of a deadlock.
func (s *Store) Create(ctx context.Context, r segment.Row, before func() error) error {
	err := segment.CheckRow(r)
	if err == nil {
		_, err = s.alter(ctx, r.Tag, func(t *tx) error {
			if len(t.rows) > 0 {
				return segment.ErrTagExists
			}
			if r.Description != "" && t.form.description == "" {
				return errNoDescription
			}
			err := t.change(ctx, t.form.insert(r), 1)
			if err == nil {
				t.rows, _, _, err = t.scan(ctx, t.form.lock([]string{r.Tag}, false, false), []string{r.Tag})
			}
			switch {
			case err != nil:
				return err
			case len(t.rows) > 1:
				return segment.ErrTagExists
			case len(t.rows) == 0 || t.rows[0].MaxID != r.MaxID:
				return fmt.Errorf("%w: biz_tag or max_id doesn't keep its value as it is", segment.ErrBadRow)
			case before == nil:
				return nil
			}
			return t.ask(func(segment.Row) error { return before() })
		})
	}
	return s.wrap(ctx, err, "create "+quote(r.Tag))
}

// Update implements segment.Admin. What can't be read of the row is -1 in it, and no reason against setting it
// right.
func (s *Store) Update(ctx context.Context, tag string, c segment.Change, before func(segment.Row) error) (segment.Row, error) {
	row, err := s.alter(ctx, tag, func(t *tx) error {
		if err := t.ask(nil); err != nil {
			return err
		}
		switch row := t.rows[0]; {
		case len(t.rows) > 1:
			return fmt.Errorf("%w: there are %d rows of the tag; biz_tag has to be the primary key, or UNIQUE", segment.ErrBadRow, len(t.rows))
		case c.Description != nil && *c.Description != "" && t.form.description == "":
			return errNoDescription
		case c.MaxID != nil && *c.MaxID < row.MaxID:
			return fmt.Errorf("%w: it is %d, and %d is below", segment.ErrLowersMaxID, row.MaxID, *c.MaxID)
		}
		err := segment.CheckChange(t.rows[0].MaxID, c)
		if err == nil {
			err = t.ask(before)
		}
		if err == nil {
			err = t.change(ctx, t.form.update(tag, c), 1)
		}
		return err
	})
	return row, s.wrap(ctx, err, "update "+quote(tag))
}

// Delete implements segment.Admin. It asks nothing of the row's values; see Update. Of a tag with several rows it
// removes all, and returns that with the highest max_id.
func (s *Store) Delete(ctx context.Context, tag string, before func(segment.Row) error) (segment.Row, error) {
	row, err := s.alter(ctx, tag, func(t *tx) error {
		for i, row := range t.rows {
			if row.MaxID > t.rows[0].MaxID {
				t.rows[0], t.rows[i] = row, t.rows[0]
			}
		}
		err := t.ask(before)
		if err == nil {
			err = t.change(ctx, t.form.remove(tag), len(t.rows))
		}
		return err
	})
	return row, s.wrap(ctx, err, "delete "+quote(tag))
}

// ask calls before, unless that is nil, with the row that is locked; segment.ErrUnknownTag.
func (t *tx) ask(before func(segment.Row) error) error {
	if len(t.rows) == 0 {
		return segment.ErrUnknownTag
	}
	if before != nil {
		if err := before(t.rows[0]); err != nil {
			return callerError{err}
		}
	}
	return nil
}

// alter locks the rows of tag, runs do, and commits; it returns the first of them as it was.
func (s *Store) alter(ctx context.Context, tag string, do func(t *tx) error) (segment.Row, error) {
	t, err := s.lockRows(ctx, s.change, []string{tag}, true)
	if err != nil {
		return segment.Row{}, err
	}
	defer t.Rollback(ctx)
	if err := do(t); err != nil {
		return segment.Row{}, err
	}
	return t.rows[0], t.commit(ctx)
}
