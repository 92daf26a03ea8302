package sqlstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/leafd/leafd/segment"
)

// table is the name of the Java Leaf's table.
const table = "leaf_alloc"

// dialect is where the databases differ.
type dialect struct {
	begin                 string // begins a transaction that is going to write, where the session doesn't
	judge                 func(err error) verdict
	forUpdate, skipLocked string // end a SELECT of rows that are to be locked, and have it pass over those that are
	readOnly, server      string // expressions: the server takes no writes, and its name
	touch                 string // sets update_time where the table doesn't
	text                  string // a literal of text; %s stands for the hex literal of its bytes
	bytes                 string // an expression: the bytes of biz_tag in UTF-8
	contains              string // an expression: biz_tag contains %s, in lower case
}

// form is what leafd knows of the table: all statements are built of it.
//
// Text stands in a statement as hex of its bytes alone, so that no character set, SQL mode or
// multiplexer between can take a part of it for SQL.
type form struct {
	*dialect
	description string // the quoted column; "" for none
	updated     bool   // it has update_time
	key         string // as text, of a tag as biz_tag has it: the table's key finds the row by it
	maxID       int64  // the highest max_id that the column takes
	unique      bool   // a key allows each biz_tag once
	now         string // other columns that need a time, each after a comma
}

func hexOf(s string) string { return "X'" + hex.EncodeToString([]byte(s)) + "'" }

// literal returns s as text or key has it.
func literal(format, s string) string { return strings.ReplaceAll(format, "%s", hexOf(s)) }

// whereTags returns the condition that selects the rows of tags, and what the collation takes for them.
func whereTags(format string, tags []string) string {
	literals := make([]string, len(tags))
	for i, tag := range tags {
		literals[i] = literal(format, tag)
	}
	return " WHERE biz_tag IN (" + strings.Join(literals, ", ") + ")"
}

// selects returns the SELECT of biz_tag, max_id and step, which are all that leafd needs; with whole what
// people see beside them, and with server what names that. NULL stands for what isn't asked for.
func (f *form) selects(whole, server bool) string {
	list := []string{"biz_tag", "max_id", "step", "NULL", "NULL", "NULL", "NULL"}
	if whole && f.description != "" {
		list[3] = f.description
	}
	if whole && f.updated {
		list[4] = "update_time"
	}
	if server {
		list[5], list[6] = f.readOnly, f.server
	}
	return "SELECT " + strings.Join(list, ", ") + " FROM " + table
}

// lock selects and locks the rows of tags; with skip those that no other transaction has locked.
func (f *form) lock(tags []string, whole, skip bool) string {
	query := f.selects(whole, true) + whereTags(f.key, tags) + " ORDER BY biz_tag" + f.forUpdate
	if skip {
		query += f.skipLocked
	}
	return query
}

// move moves each row from the max_id that was read. To the usual collations of MySQL 'Order', 'order'
// and 'order ' are one: the key finds by them, and the bytes decide.
func (f *form) move(moves []segment.Move) string {
	tags := make([]string, len(moves))
	from := "CASE " + f.bytes
	to := from
	for i, m := range moves {
		tags[i] = m.Tag
		from += " WHEN " + hexOf(m.Tag) + " THEN " + decimal(m.From)
		to += " WHEN " + hexOf(m.Tag) + " THEN " + decimal(m.To)
	}
	return "UPDATE " + table + " SET max_id = " + to + " END" + f.touch + whereTags(f.key, tags) + " AND max_id = " + from + " END"
}

// whereRow returns the condition that selects the rows that have exactly tag.
func (f *form) whereRow(tag string) string {
	return whereTags(f.key, []string{tag}) + " AND " + f.bytes + " = " + hexOf(tag)
}

// insert adds a row.
func (f *form) insert(r segment.Row) string {
	names, values := "biz_tag, max_id, step"+f.now, literal(f.text, r.Tag)+", "+decimal(r.MaxID)+", "+decimal(r.Step)
	values += strings.Repeat(", CURRENT_TIMESTAMP", strings.Count(f.now, ","))
	if f.description != "" {
		names, values = names+", "+f.description, values+", "+literal(f.text, r.Description)
	}
	return "INSERT INTO " + table + " (" + names + ") VALUES (" + values + ")"
}

// update changes what isn't nil in c. It never lowers a max_id.
func (f *form) update(tag string, c segment.Change) string {
	sets, where := "step = step", f.whereRow(tag)
	if c.MaxID != nil {
		sets += ", max_id = " + decimal(*c.MaxID)
		where += " AND (max_id <= " + decimal(*c.MaxID) + " OR max_id IS NULL)"
	}
	if c.Step != nil {
		sets += ", step = " + decimal(*c.Step)
	}
	if c.Description != nil && f.description != "" {
		sets += ", " + f.description + " = " + literal(f.text, *c.Description)
	}
	return "UPDATE " + table + " SET " + strings.TrimPrefix(sets, "step = step, ") + f.touch + where
}

func (f *form) remove(tag string) string { return "DELETE FROM " + table + f.whereRow(tag) }

// page selects rows after the tag after, in the table's order, and all of those that contain part: letters
// beyond ASCII may match in another case, too.
func (f *form) page(after, part string, limit int) string {
	where, order := " WHERE biz_tag IS NOT NULL", " ORDER BY biz_tag"
	if after != "" {
		key := literal(f.key, after)
		where += " AND biz_tag >= " + key + " AND (biz_tag > " + key + " OR " + f.bytes + " > " + hexOf(after) + ")"
	}
	if !f.unique {
		order += ", " + f.bytes
	}
	if part != "" {
		where += " AND " + literal(f.contains, part)
	}
	return f.selects(true, false) + where + order + " LIMIT " + strconv.Itoa(limit)
}

// name matches the names of character sets, collations and columns that stand in a statement.
var name = regexp.MustCompile(`^[a-z0-9_]+$`)

// highest is the end of each type of integer.
var highest = map[string]int64{ //nolint:gochecknoglobals // a constant table
	"tinyint": math.MaxInt8, "smallint": math.MaxInt16, "mediumint": 1<<23 - 1, "int": math.MaxInt32, "bigint": math.MaxInt64,
}

// form returns what statements are built of, and why nothing may be taken from the table: it has to be
// such that max_id is exactly what was written, and that a lock of a row is one.
func (t TableFacts) form() (*form, error) {
	tag, maxID, step := t.Columns["biz_tag"], t.Columns["max_id"], t.Columns["step"]
	f := &form{dialect: mysqlDialect, unique: t.UniqueTag, maxID: highest[maxID.Type], key: "%s"}
	if maxID.Unsigned && f.maxID < math.MaxInt64 {
		f.maxID = 2*f.maxID + 1
	}
	for column, c := range t.Columns {
		if column == "description" || column == "desc" && t.Columns["description"].Type == "" {
			f.description = "`" + column + "`"
		}
		f.updated = f.updated || column == "update_time"
		if c.NeedsTime && name.MatchString(column) {
			f.now += ", `" + column + "`"
		}
	}
	if tag.Charset != "" {
		f.key = mysqlDialect.text
		if tag.Charset != "utf8mb4" {
			f.key = "CONVERT(" + f.key + " USING " + tag.Charset + ")"
		}
		f.key += " COLLATE " + tag.Collation
	}
	var wrong string
	switch {
	case tag.Type == "" || maxID.Type == "" || step.Type == "":
		wrong = "it lacks biz_tag, max_id or step, or our user may not see them"
	case !name.MatchString(tag.Charset + "_" + tag.Collation):
		wrong = "the character set or collation of biz_tag has an odd name"
	case t.View:
		wrong = "it is a view, of which leafd can't tell whether it locks"
	case !t.Transactional:
		wrong = "its engine " + t.Engine + " has no transactions, so that two clients can get one range; run: ALTER TABLE " + table + " ENGINE=InnoDB"
	case f.maxID == 0 || highest[step.Type] == 0:
		wrong = "max_id is " + maxID.Type + " and step " + step.Type + ", and both have to be integers: max_id BIGINT, step INT or BIGINT"
	case t.MovesMaxID:
		wrong = "a trigger before UPDATE names max_id, and what is written there has to stay as it is; drop the trigger"
	default:
		return f, nil
	}
	return f, fmt.Errorf("%w: %s", errTable, wrong)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// TableFacts are what the server shows about leaf_alloc.
type TableFacts struct {
	View          bool // it is no table
	Engine        string
	Transactional bool
	Columns       map[string]Column // by name, in lower case
	// UniqueTag tells that a key allows each biz_tag once, and that it compares the
	// whole of it.
	UniqueTag  bool
	Triggers   int  // of those that our user may see
	MovesMaxID bool // one of them, before an UPDATE, names max_id
}

// Column is one column of leaf_alloc.
type Column struct {
	Type      string // as information_schema has it: bigint, varchar
	Unsigned  bool
	Length    int64 // of a text, in characters; 0 for others
	Charset   string
	Collation string // of a text
	NeedsTime bool   // it is a time, and may neither be NULL nor left out
}

// ofTable picks what information_schema has of our table, which an alias may qualify.
func ofTable(alias string) string {
	return " WHERE " + alias + "TABLE_SCHEMA = DATABASE() AND " + alias + "TABLE_NAME = '" + table + "'"
}

// tableQuery has a row for each column. One unique key has biz_tag alone, and as a whole.
var tableQuery = "SELECT c.COLUMN_NAME, c.DATA_TYPE, c.COLUMN_TYPE LIKE '%unsigned%', c.CHARACTER_MAXIMUM_LENGTH, c.CHARACTER_SET_NAME, c.COLLATION_NAME, " + //nolint:gochecknoglobals // a constant
	"c.DATA_TYPE IN ('date', 'datetime', 'timestamp') AND c.IS_NULLABLE = 'NO' AND c.COLUMN_DEFAULT IS NULL, " +
	"t.TABLE_TYPE, t.ENGINE, e.TRANSACTIONS, " +
	"EXISTS (SELECT 1 FROM information_schema.STATISTICS" + ofTable("") + " AND NON_UNIQUE = 0 " +
	"GROUP BY INDEX_NAME HAVING COUNT(*) = 1 AND MAX(LOWER(COLUMN_NAME)) = 'biz_tag' AND MAX(SUB_PART) IS NULL), g.n, g.moves " +
	"FROM information_schema.COLUMNS c, information_schema.TABLES t " +
	"LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE, " +
	"(SELECT COUNT(*) AS n, COALESCE(SUM(ACTION_TIMING = 'BEFORE' AND EVENT_MANIPULATION = 'UPDATE' AND LOWER(ACTION_STATEMENT) LIKE '%max\\_id%'), 0) AS moves " +
	"FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = '" + table + "') g" + ofTable("c.") + strings.Replace(ofTable("t."), "WHERE", "AND", 1) // constants for both: else MariaDB opens every table

// readTable reads what leaf_alloc looks like. ErrNoTable.
func readTable(ctx context.Context, d *database) (TableFacts, error) {
	f := TableFacts{Columns: map[string]Column{}}
	err := d.read(ctx, d.look, tableQuery, func(rows *sql.Rows) error {
		var column, kind string
		var c Column
		var length sql.NullInt64
		var charset, collation, engine, transactions sql.NullString
		err := rows.Scan(&column, &c.Type, &c.Unsigned, &length, &charset, &collation, &c.NeedsTime, &kind, &engine, &transactions, &f.UniqueTag, &f.Triggers, &f.MovesMaxID)
		c.Length, c.Charset, c.Collation = length.Int64, strings.ToLower(charset.String), strings.ToLower(collation.String)
		f.View, f.Engine, f.Transactional = strings.Contains(kind, "VIEW"), engine.String, transactions.String == "YES"
		f.Columns[strings.ToLower(column)] = c
		return err
	})
	if err == nil && len(f.Columns) == 0 {
		// Without any privilege on it, too. Its own answer tells which.
		err = d.read(ctx, d.look, "SELECT biz_tag FROM "+table+" LIMIT 0", func(*sql.Rows) error { return nil })
		if err == nil {
			err = fmt.Errorf("%w: none of its columns can be seen", errTable)
		}
	}
	return f, err
}
