package sqlstore

import "strings"

// table is the name of the Java Leaf's table.
const table = "leaf_alloc"

// verdict is what an error of a driver means to us.
type verdict int

const (
	// verdictLost: the connection may be gone, and what was sent may or may
	// not have been done.
	verdictLost verdict = iota
	// verdictAnswered: the database itself said no; the connection is sound.
	verdictAnswered
	// verdictReadOnly: the database said that it takes no writes. The
	// connection leads to a replica, or to what has become one.
	verdictReadOnly
	// verdictAgain: nothing was begun; another attempt may succeed.
	verdictAgain
	// verdictDuplicate: the key is there already.
	verdictDuplicate
	// verdictBadValue: a column doesn't take the value.
	verdictBadValue
	// verdictForeign: the tag has letters that the column's character set
	// has not, so no row can have it.
	verdictForeign
)

// dialect is where the databases differ.
type dialect struct {
	// begin starts a transaction that is going to write.
	begin string
	// end follows what ends a transaction.
	end string
	// attempts is how often begin is tried while its verdict is verdictAgain.
	attempts int
	// together tells that several statements cost one round trip when they are sent as one.
	together bool
	// forUpdate ends a SELECT of a row that the transaction is going to write.
	forUpdate string
	// matchTag is true of a row that has exactly one tag, which is given
	// twice: first compared by the column's collation, so that the primary
	// key finds the row, then byte for byte, since to the usual collations
	// of MySQL 'Order', 'order' and 'order ' are one.
	matchTag string
	// readOnly is an expression that tells whether the server says of itself that
	// it takes no writes.
	readOnly string
	// view reads the time, what tells this table and its server from others, and whether the
	// table tells what has changed; "": it doesn't.
	view string
	// touch sets update_time where the table doesn't do it by itself.
	touch string
	// literal escapes what stands between the quotes of a string.
	literal *strings.Replacer
	// judge returns the verdict on an error, and a hint at what to do about
	// it or "".
	judge func(err error) (verdict, string)
}

// fix returns the statement that raises column of tag's row, for people to run: by then the
// row may be fixed, and lowering max_id would repeat IDs.
func (d *dialect) fix(tag, column string, to int64) string {
	return "UPDATE " + table + " SET " + column + " = " + decimal(to) +
		" WHERE biz_tag = '" + d.literal.Replace(tag) + "' AND " + column + " < " + decimal(to)
}

// statements are the SQL of a dialect, put together once.
type statements struct {
	beginRow, lockRow, lockWhole string // beginRow, moveRow: several statements together
	readBack, take, moveRow      string
	each, list, readOnly         string
	insert, update, set, remove  string
}

func newStatements(d *dialect) statements {
	where := " WHERE " + d.matchTag
	lock := func(rest string) string {
		return "SELECT max_id, step, " + d.readOnly + ", " + rest + " FROM " + table + where + d.forUpdate
	}
	st := statements{
		lockRow:   lock("NULL, NULL"), // a fetch needs no such columns
		lockWhole: lock("description, update_time"),
		take:      "UPDATE " + table + " SET max_id = ?" + d.touch + where + " AND max_id = ?",
		readBack:  "SELECT max_id, " + d.readOnly + " FROM " + table + where,
		each:      "SELECT biz_tag, max_id, step FROM " + table,
		list:      "SELECT biz_tag, max_id, step, description, update_time FROM " + table,
		readOnly:  "SELECT " + d.readOnly,
		insert:    "INSERT INTO " + table + " (biz_tag, max_id, step, description) VALUES (?, ?, ?, ?)",
		update: "UPDATE " + table + " SET step = COALESCE(?, step), description = COALESCE(?, description)" +
			d.touch + where,
		set:    "UPDATE " + table + " SET max_id = ?" + d.touch + where,
		remove: "DELETE FROM " + table + where,
	}
	st.beginRow = d.begin + "; " + st.lockRow
	st.moveRow = st.take + "; SELECT max_id, " + d.readOnly + ", ROW_COUNT() FROM " + table + where
	return st
}
