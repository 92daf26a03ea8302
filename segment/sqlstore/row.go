package sqlstore

import (
	"database/sql"
	"fmt"
	"strconv"

	"github.com/leafd/leafd/segment"
)

// unreadable stands for a max_id or step that is NULL or no integer of 64 bits.
// It is no valid value of either, so each reader refuses the row.
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
