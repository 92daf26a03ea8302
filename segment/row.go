package segment

import (
	"fmt"
	"math"
	"unicode"
	"unicode/utf8"
)

// Reserve returns the range that a fetch takes from a row: [maxID, maxID+n)
// with n the larger of want and step. Where maxID is below floor and above is true the range
// begins at floor. fix is the statement that would repair a column of the row.
//
// What holds of a range that it returns:
//
//   - 0 <= Lo < Hi, without overflow.
//   - Hi-Lo is at least step and at least want.
//   - Lo is not below floor.
func Reserve(maxID, step, want, floor int64, above bool, fix func(column string, to int64) string) (Range, error) {
	switch {
	case step < 1:
		return Range{}, fmt.Errorf("%w: step is %d, below 1; fix it: %s",
			ErrBadRow, step, fix("step", max(1, min(want, 1000))))
	case maxID < 0 && floor == 0: // no number is known
		return Range{}, fmt.Errorf("%w: max_id is %d, below 0; set it above every ID ever issued", ErrBadRow, maxID)
	case maxID < 0:
		return Range{}, fmt.Errorf("%w: max_id is %d, below 0; set it above every ID ever issued, which is this at least: %s",
			ErrBadRow, maxID, fix("max_id", floor))
	case maxID < floor && !above:
		return Range{}, fmt.Errorf("%w: max_id is %d, but ranges up to %d were used already: the table was restored "+
			"or set back, or a replica lagged; set it to that or above, and not below what any other daemon used: %s",
			ErrRegressed, maxID, floor, fix("max_id", floor))
	}
	n, lo := max(want, step), max(maxID, floor)
	if lo > math.MaxInt64-n {
		return Range{}, fmt.Errorf("%w: a range of %d (step %d) from %d on, the highest value seen, passes the end of int64; max_id is %d",
			ErrBadRow, n, step, lo, maxID)
	}
	return Range{Lo: lo, Hi: lo + n, Step: step, Skipped: lo - maxID}, nil
}

// CheckRow returns ErrBadRow when r can't be created.
func CheckRow(r Row) error {
	switch {
	case r.Tag == "":
		return fmt.Errorf("%w: the tag is empty", ErrBadRow)
	case len(r.Tag) > MaxTagBytes:
		return fmt.Errorf("%w: the tag has %d bytes, above %d", ErrBadRow, len(r.Tag), MaxTagBytes)
	case !utf8.ValidString(r.Tag):
		return fmt.Errorf("%w: the tag isn't UTF-8", ErrBadRow)
	case r.MaxID < 0:
		return fmt.Errorf("%w: max_id %d is below 0", ErrBadRow, r.MaxID)
	}
	return CheckChange(r.MaxID, &r.Step, &r.Description)
}

// Hidden tells whether a character is invisible, or changes how those around it are shown:
// controls, bidirectional and other formatting, line separators, private use. Code that makes
// a tag should refuse it, and code that shows one replace it: others write to the table.
func Hidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp)
}

// Changed returns r with step and description where they are not nil.
func (r Row) Changed(step *int64, description *string) Row {
	if step != nil {
		r.Step = *step
	}
	if description != nil {
		r.Description = *description
	}
	return r
}

// CheckMaxID returns ErrBadRow when a row with step can't get maxID.
func CheckMaxID(maxID, step int64) error {
	if maxID < 0 || maxID > math.MaxInt64-max(step, 0) {
		return fmt.Errorf("%w: max_id %d with step %d: want 0 or more, and a first range within int64", ErrBadRow, maxID, step)
	}
	return nil
}

// CheckChange returns ErrBadRow when a row at maxID can't get step or description; nil
// stands for no change. A maxID below 0 is no reason against a change that fixes step.
func CheckChange(maxID int64, step *int64, description *string) error {
	switch {
	case step != nil && *step < 1:
		return fmt.Errorf("%w: step %d is below 1", ErrBadRow, *step)
	case step != nil && maxID > math.MaxInt64-*step:
		return fmt.Errorf("%w: max_id %d and step %d pass the end of int64", ErrBadRow, maxID, *step)
	case description != nil && !utf8.ValidString(*description):
		return fmt.Errorf("%w: the description isn't UTF-8", ErrBadRow)
	}
	return nil
}
