package sqlstore

import (
	"database/sql"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/leafd/leafd/segment"
)

// unreadable stands for a max_id or step that is NULL or no integer of 64 bits.
// It is no valid value of either, so whoever gets it refuses the row.
const unreadable = -1

// parseInteger returns the integer that b spells in the one way that FormatInt
// writes it, and whether it does. The database's own conversions are of no use
// here: they make 12 of '12 apples', and a REAL of what passes int64.
func parseInteger(b []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return unreadable, false
	}
	var canonical [20]byte
	if string(strconv.AppendInt(canonical[:0], n, 10)) != string(b) {
		return unreadable, false
	}
	return n, true
}

// integerColumn returns the value of a column of leaf_alloc, or ErrBadRow.
func integerColumn(name string, v sql.NullString) (int64, error) {
	if !v.Valid {
		return 0, fmt.Errorf("%w: %s is NULL", segment.ErrBadRow, name)
	}
	n, ok := parseInteger([]byte(v.String))
	if !ok {
		return 0, fmt.Errorf("%w: %s is %.40q, no integer of 64 bits", segment.ErrBadRow, name, v.String)
	}
	return n, nil
}

// reserve returns the range that a fetch takes from a row: [maxID, maxID+n)
// with n the larger of want and step. mend is the statement that would repair
// a column of the row.
//
// What holds of a range that it returns:
//  1. 0 <= Lo < Hi, without overflow.
//  2. Hi-Lo is at least step and at least want.
//  3. Lo is not below floor.
func reserve(maxID, step, want, floor int64, mend func(column string, to int64) string) (segment.Range, error) {
	switch {
	case step < 1:
		return segment.Range{}, fmt.Errorf("%w: step is %d, below 1; mend it: %s",
			segment.ErrBadRow, step, mend("step", max(1, min(want, 1000))))
	case maxID < 0:
		return segment.Range{}, fmt.Errorf("%w: max_id is %d, below 0; set it above every ID ever issued: %s",
			segment.ErrBadRow, maxID, mend("max_id", max(1, floor)))
	case maxID < floor:
		return segment.Range{}, fmt.Errorf("%w: max_id is %d, but ranges up to %d were used already: the table was restored "+
			"or set back, or a replica lagged; set it to that or above, and not below what any other daemon used: %s",
			segment.ErrRegressed, maxID, floor, mend("max_id", floor))
	}
	n := max(want, step)
	if maxID > math.MaxInt64-n {
		return segment.Range{}, fmt.Errorf("%w: max_id %d and a range of %d (step %d) pass the end of int64",
			segment.ErrBadRow, maxID, n, step)
	}
	return segment.Range{Lo: maxID, Hi: maxID + n, Step: step}, nil
}

// checkNew returns ErrBadRow when r can't be created.
func checkNew(r segment.Row) error {
	switch {
	case r.Tag == "":
		return fmt.Errorf("%w: the tag is empty", segment.ErrBadRow)
	case len(r.Tag) > segment.MaxTagBytes:
		return fmt.Errorf("%w: the tag has %d bytes, above %d", segment.ErrBadRow, len(r.Tag), segment.MaxTagBytes)
	case !utf8.ValidString(r.Tag):
		return fmt.Errorf("%w: the tag isn't UTF-8", segment.ErrBadRow)
	case !utf8.ValidString(r.Description):
		return fmt.Errorf("%w: the description isn't UTF-8", segment.ErrBadRow)
	case r.MaxID < 0:
		return fmt.Errorf("%w: max_id %d is below 0", segment.ErrBadRow, r.MaxID)
	}
	return checkStep(r.MaxID, r.Step)
}

// checkStep returns ErrBadRow when a row at maxID can't have step.
func checkStep(maxID, step int64) error {
	if step < 1 {
		return fmt.Errorf("%w: step %d is below 1", segment.ErrBadRow, step)
	}
	if maxID > math.MaxInt64-step {
		return fmt.Errorf("%w: max_id %d and step %d pass the end of int64", segment.ErrBadRow, maxID, step)
	}
	return nil
}
