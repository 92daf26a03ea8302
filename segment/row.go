package segment

import (
	"fmt"
	"math"
	"unicode"
	"unicode/utf8"
)

// Reserve returns the range that a fetch takes from r: [lo, lo+n) with n the larger of want and the
// row's step, and lo the larger of max_id and floor. It returns ErrBadRow if the row gives none.
//
// What holds of a range that it returns:
//
//   - 0 <= Lo < Hi, without overflow.
//   - Hi-Lo is at least step and at least want.
//   - Lo is neither below max_id nor below floor.
func Reserve(r Row, want, floor int64) (Range, error) {
	switch {
	case r.Step < 1:
		return Range{}, fmt.Errorf("%w: step is %d, below 1; run leafd segment update TAG --step 1000", ErrBadRow, r.Step)
	case r.MaxID < 0:
		return Range{}, fmt.Errorf("%w: max_id is %d, below 0 or no integer; set it above every ID ever issued, which is %d at least: leafd segment update TAG --max-id N", ErrBadRow, r.MaxID, floor)
	}
	n, lo := max(want, r.Step), max(r.MaxID, floor)
	if lo > math.MaxInt64-n {
		return Range{}, fmt.Errorf("%w: a range of %d (step %d) from %d on, the highest value seen, passes the end of int64; max_id is %d",
			ErrBadRow, n, r.Step, lo, r.MaxID)
	}
	return Range{Lo: lo, Hi: lo + n}, nil
}

// CheckRow returns ErrBadRow when r can't be created.
func CheckRow(r Row) error {
	if err := CheckTag(r.Tag); err != nil {
		return err
	}
	return CheckChange(0, Change{MaxID: &r.MaxID, Step: &r.Step, Description: &r.Description})
}

// CheckTag returns ErrBadRow when no row can have tag.
func CheckTag(tag string) error {
	switch n := utf8.RuneCountInString(tag); {
	case tag == "":
		return fmt.Errorf("%w: the tag is empty", ErrBadRow)
	case n > MaxTagChars || len(tag) > MaxTagBytes:
		return fmt.Errorf("%w: the tag has %d characters and %d bytes, above %d or %d", ErrBadRow, n, len(tag), MaxTagChars, MaxTagBytes)
	case !utf8.ValidString(tag):
		return fmt.Errorf("%w: the tag isn't UTF-8", ErrBadRow)
	}
	return nil
}

// Hidden reports whether a character is invisible, or changes how those around it are shown:
// controls, bidirectional and other formatting, line separators, private use. Code that makes
// a tag should refuse it, and code that shows one replace it: others write to the table.
func Hidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp)
}

// Changed returns r with what isn't nil in c.
func (r Row) Changed(c Change) Row {
	if c.MaxID != nil {
		r.MaxID = *c.MaxID
	}
	if c.Step != nil {
		r.Step = *c.Step
	}
	if c.Description != nil {
		r.Description = *c.Description
	}
	return r
}

// CheckChange returns ErrBadRow when a row at maxID can't get c. A maxID below 0 is no reason against a
// change that fixes step.
func CheckChange(maxID int64, c Change) error {
	if c.MaxID != nil {
		maxID = *c.MaxID
	}
	switch {
	case c.MaxID != nil && maxID < 0:
		return fmt.Errorf("%w: max_id %d is below 0", ErrBadRow, maxID)
	case c.Step != nil && *c.Step < 1:
		return fmt.Errorf("%w: step %d is below 1", ErrBadRow, *c.Step)
	case c.Step != nil && maxID > math.MaxInt64-*c.Step:
		return fmt.Errorf("%w: max_id %d and step %d pass the end of int64", ErrBadRow, maxID, *c.Step)
	case c.Description != nil && !utf8.ValidString(*c.Description):
		return fmt.Errorf("%w: the description isn't UTF-8", ErrBadRow)
	}
	return nil
}
