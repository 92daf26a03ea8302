package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// ErrNoTable is returned by Inspector.Table where the database has no leaf_alloc
// that the user may see.
var ErrNoTable = errors.New("no table " + table)

// Inspector looks at what a Store of MySQL needs, for setting one up. It
// writes nothing.
type Inspector struct {
	d *database
}

// OpenInspector returns the Inspector of the MySQL database that c names, and connects to
// nothing yet. ErrBadDSN.
func OpenInspector(c Config) (*Inspector, error) {
	cfg, connector, err := newMySQLConnector(c) // without mysqlConnector, which refuses what is to be looked at
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	return &Inspector{d: &database{db: db, readers: db, dialect: mysqlDialect(cfg), idle: 1, place: placeOf(cfg)}}, nil
}

// Place names the database, without user and password.
func (i *Inspector) Place() string { return i.d.place }

// Close closes its connection.
func (i *Inspector) Close() error { return i.d.close() }

// ServerFacts are what a server tells of itself.
type ServerFacts struct {
	Version  string
	ReadOnly bool // read_only, super_read_only or innodb_read_only
	// StatementBinlog: it logs statements, and so refuses what a Store writes.
	StatementBinlog bool
	Weak            []Weakness
}

// Weakness is a way to lose commits, with which the ranges that they took would be
// given out again, were it not for the marks.
type Weakness struct {
	Found, Do string
}

// Server connects, and asks the server about itself and about our account.
func (i *Inspector) Server(ctx context.Context) (ServerFacts, error) {
	var f ServerFacts
	err := i.d.db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&f.Version)
	if err != nil {
		return f, i.d.fail(ctx, err, "connect")
	}
	is := map[string]string{}
	err = i.d.read(ctx, func(rows *sql.Rows) error {
		var name, value string
		err := rows.Scan(&name, &value)
		is[strings.ToLower(name)] = value
		return err
	}, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'super_read_only', 'innodb_read_only', "+
		"'innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'binlog_format')")
	if err != nil {
		return f, i.d.fail(ctx, err, "read the server's variables")
	}
	for _, name := range []string{"read_only", "super_read_only", "innodb_read_only"} {
		f.ReadOnly = f.ReadOnly || is[name] != "" && isOn(is[name])
	}
	logs := is["log_bin"] != "" && isOn(is["log_bin"])
	f.StatementBinlog = logs && strings.EqualFold(is["binlog_format"], "STATEMENT")
	// MariaDB's 3 is as durable as 1.
	if flush := is["innodb_flush_log_at_trx_commit"]; flush == "0" || flush == "2" {
		f.weak("innodb_flush_log_at_trx_commit is "+flush+": a crash of the server's machine loses commits", "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the server's configuration")
	}
	if logs && is["sync_binlog"] != "1" {
		f.weak("sync_binlog is "+is["sync_binlog"]+": a crash of the server's machine loses commits", "SET GLOBAL sync_binlog = 1, and in the server's configuration")
	}
	// An account that may see all others is shown the privileges of all.
	var powers sql.NullString
	err = i.d.db.QueryRowContext(ctx, "SELECT GROUP_CONCAT(PRIVILEGE_TYPE ORDER BY PRIVILEGE_TYPE SEPARATOR ', ') FROM information_schema.USER_PRIVILEGES "+
		"WHERE REPLACE(GRANTEE, '''', '') = CURRENT_USER() AND PRIVILEGE_TYPE IN ('SUPER', 'READ ONLY ADMIN', 'READ_ONLY ADMIN', 'CONNECTION_ADMIN')").Scan(&powers)
	if powers.Valid {
		f.weak("our account may write on a server that is read-only ("+powers.String+"): leafd asks before it writes, but a failover may come in between",
			"use one with SELECT, INSERT, UPDATE and DELETE on leaf_alloc alone, as deploy/leaf_alloc.sql shows")
	}
	return f, i.d.fail(ctx, err, "read the account's privileges")
}

func (f *ServerFacts) weak(found, do string) {
	f.Weak = append(f.Weak, Weakness{Found: found, Do: do})
}

// TableFacts are what the server tells of leaf_alloc.
type TableFacts struct {
	View          bool // it is no table
	Engine        string
	Transactional bool
	Columns       map[string]Column // by name
	// UniqueTag tells that a key allows each biz_tag once, and that it compares the
	// whole of it.
	UniqueTag bool
	Triggers  int
	// TellsChanges tells that a pass need not read all rows; see Store.Each.
	TellsChanges bool
}

// Column is one column of leaf_alloc.
type Column struct {
	Type      string // as information_schema has it: bigint, varchar
	Length    int64  // of a text, in characters; 0 for others
	Collation string // of a text
}

// Table reads what leaf_alloc looks like. ErrNoTable.
func (i *Inspector) Table(ctx context.Context) (TableFacts, error) {
	f := TableFacts{Columns: map[string]Column{}}
	var engine, transactions sql.NullString
	var kind string
	err := i.d.db.QueryRowContext(ctx, "SELECT t.TABLE_TYPE, t.ENGINE, e.TRANSACTIONS FROM information_schema.TABLES t "+
		"LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE"+strings.ReplaceAll(ofTable, "TABLE_", "t.TABLE_")).Scan(&kind, &engine, &transactions)
	if errors.Is(err, sql.ErrNoRows) {
		return f, fmt.Errorf("%w in %s", ErrNoTable, i.d.place)
	}
	if err != nil {
		return f, i.d.fail(ctx, err, "look for "+table)
	}
	f.View, f.Engine, f.Transactional = strings.Contains(kind, "VIEW"), engine.String, transactions.String == "YES"
	err = i.d.read(ctx, func(rows *sql.Rows) error {
		var name string
		var c Column
		var length sql.NullInt64
		var collation sql.NullString
		if err := rows.Scan(&name, &c.Type, &length, &collation); err != nil {
			return err
		}
		c.Length, c.Collation = length.Int64, collation.String
		f.Columns[strings.ToLower(name)] = c
		return nil
	}, "SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH, COLLATION_NAME FROM information_schema.COLUMNS"+ofTable)
	if err == nil {
		err = i.d.db.QueryRowContext(ctx, keysAndTriggers).Scan(&f.UniqueTag, &f.Triggers)
	}
	if err == nil {
		err = i.d.db.QueryRowContext(ctx, viewMySQL).Scan(new(any), new(any), &f.TellsChanges)
	}
	return f, i.d.fail(ctx, err, "look at "+table)
}

// keysAndTriggers tells whether a unique key is of biz_tag alone and as a whole, and counts the triggers.
const keysAndTriggers = "SELECT EXISTS (SELECT 1 FROM information_schema.STATISTICS" + ofTable + " AND NON_UNIQUE = 0 " +
	"GROUP BY INDEX_NAME HAVING COUNT(*) = 1 AND MAX(LOWER(COLUMN_NAME)) = 'biz_tag' AND MAX(SUB_PART) IS NULL), " +
	"(SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = '" + table + "')"

// Privileges has the server explain each statement that a Store runs, for which it
// wants the same privileges as for running it. It runs none of them. It returns what the user of the
// DSN lacks for reading and taking ranges, and for managing tags; nil where allowed.
func (i *Inspector) Privileges(ctx context.Context) (fetch, manage, err error) {
	s := newStatements(i.d.dialect)
	for _, each := range []struct {
		to   *error
		sql  string
		args []any
	}{
		{&fetch, s.each, nil},
		{&fetch, s.lockRow, []any{"", ""}},
		{&fetch, s.take, []any{0, "", "", 0}},
		{&manage, s.insert, []any{"", 0, 1, ""}},
		{&manage, s.remove, []any{"", ""}},
		{&manage, s.update, []any{1, "", "", ""}},
	} {
		err = i.d.read(ctx, func(*sql.Rows) error { return nil }, "EXPLAIN "+each.sql, each.args...)
		switch {
		case err == nil:
		case isDenied(err):
			*each.to = errors.Join(*each.to, i.d.fail(ctx, err, "ask for privileges"))
		default:
			return nil, nil, i.d.fail(ctx, err, "ask for privileges")
		}
	}
	return fetch, manage, nil
}

// isDenied tells that the user may not do what it asked for.
func isDenied(err error) bool {
	var answer *mysql.MySQLError
	return errors.As(err, &answer) && slices.Contains([]uint16{erDBAccessDenied, erTableAccessDenied, erColumnAccessDenied}, answer.Number)
}
