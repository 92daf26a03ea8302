package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/leafd/leafd/segment"
)

// Inspector looks at what a Store of MySQL needs, for setting one up. It
// writes nothing.
type Inspector struct{ s *Store }

// OpenInspector returns the Inspector of the MySQL database that c names, and connects to nothing yet. It
// returns ErrBadDSN if that can't be used.
func OpenInspector(c Config) (*Inspector, error) {
	s, err := openMySQL(c)
	if err != nil {
		return nil, err
	}
	return &Inspector{s}, nil
}

// Place names the database, without user and password.
func (i *Inspector) Place() string { return i.s.place }

// Close closes its connections.
func (i *Inspector) Close() error { return i.s.Close() }

// ServerFacts are what a server shows about itself and our account.
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

// powersQuery selects what lets our account write on a server that is read-only. One that may see all others is shown
// the privileges of all.
const powersQuery = "SELECT GROUP_CONCAT(PRIVILEGE_TYPE ORDER BY PRIVILEGE_TYPE SEPARATOR ', ') FROM information_schema.USER_PRIVILEGES " +
	"WHERE REPLACE(GRANTEE, '''', '') = CURRENT_USER() AND PRIVILEGE_TYPE IN ('SUPER', 'READ ONLY ADMIN', 'READ_ONLY ADMIN', 'CONNECTION_ADMIN')"

const variablesQuery = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'super_read_only', 'innodb_read_only', " +
	"'innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'binlog_format')"

// Server connects, and returns what the server shows about itself and our account. It returns the driver's
// error.
func (i *Inspector) Server(ctx context.Context) (ServerFacts, error) {
	var f ServerFacts
	d := i.s.database
	err := d.look.QueryRowContext(ctx, "SELECT VERSION()").Scan(&f.Version)
	if err != nil {
		return f, d.wrap(ctx, err, "connect")
	}
	is := map[string]string{}
	err = d.read(ctx, d.look, variablesQuery, func(rows *sql.Rows) error {
		var name, value string
		err := rows.Scan(&name, &value)
		is[strings.ToLower(name)] = value
		return err
	})
	if err != nil {
		return f, d.wrap(ctx, err, "read the server's variables")
	}
	f.ReadOnly = isOn(is["read_only"] + " " + is["super_read_only"] + " " + is["innodb_read_only"])
	logs := isOn(is["log_bin"])
	f.StatementBinlog = logs && strings.EqualFold(is["binlog_format"], "STATEMENT")
	// MariaDB's 3 is as durable as 1.
	if flush := is["innodb_flush_log_at_trx_commit"]; flush == "0" || flush == "2" {
		f.weak("innodb_flush_log_at_trx_commit is "+flush+": a crash of the server's machine loses commits", "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the server's configuration")
	}
	if logs && is["sync_binlog"] != "1" {
		f.weak("sync_binlog is "+is["sync_binlog"]+": a crash of the server's machine loses commits", "SET GLOBAL sync_binlog = 1, and in the server's configuration")
	}
	var powers sql.NullString
	err = d.look.QueryRowContext(ctx, powersQuery).Scan(&powers)
	if powers.Valid {
		f.weak("our account may write on a server that is read-only ("+powers.String+"): leafd asks before it writes, but a failover may come in between",
			"use one with SELECT, INSERT, UPDATE and DELETE on leaf_alloc alone, as deploy/leaf_alloc.sql shows")
	}
	return f, d.wrap(ctx, err, "read the account's privileges")
}

func (f *ServerFacts) weak(found, do string) {
	f.Weak = append(f.Weak, Weakness{Found: found, Do: do})
}

// Table returns what leaf_alloc looks like. It returns ErrNoTable if there is none.
func (i *Inspector) Table(ctx context.Context) (TableFacts, error) {
	f, err := readTable(ctx, i.s.database)
	return f, i.s.wrap(ctx, err, "look at "+table)
}

// Tags returns what the table has, as InspectSQLite does, or the driver's error.
func (i *Inspector) Tags(ctx context.Context) ([]TagFacts, error) { return tagFacts(ctx, i.s) }

// Privileges has the server explain each statement that a Store runs, for which it wants the same privileges
// as for running it. It runs none of them. It returns as fetch what the user of the DSN lacks for reading and
// taking ranges, as manage what it lacks for managing tags, nil if all is allowed; and the driver's error
// otherwise.
func (i *Inspector) Privileges(ctx context.Context) (fetch, manage, err error) {
	facts, err := readTable(ctx, i.s.database)
	if err != nil {
		return nil, nil, i.s.wrap(ctx, err, "ask for privileges")
	}
	f, _ := facts.form() // what is wrong with the table is told by its facts
	step, text := int64(1), ""
	for _, each := range []struct {
		to  *error
		sql string
	}{
		{&fetch, f.lock([]string{""}, false, false)},
		{&fetch, f.move([]segment.Move{{}})},
		{&manage, f.page("", "", 1)},
		{&manage, f.insert(segment.Row{})},
		{&manage, f.remove("")},
		{&manage, f.update("", segment.Change{Step: &step, Description: &text})},
	} {
		err = i.s.read(ctx, i.s.look, "EXPLAIN "+each.sql, func(*sql.Rows) error { return nil })
		switch number := numberOf(err); {
		case err == nil:
		case number == erTableAccess || number == erColumnAccess || number == erDBAccess:
			*each.to = errors.Join(*each.to, i.s.wrap(ctx, err, "ask for privileges"))
		default:
			return nil, nil, i.s.wrap(ctx, err, "ask for privileges")
		}
	}
	return fetch, manage, nil
}

// ErrNoFile is returned for a SQLite file that is not there, by the inspections and,
// unless it may create one, by Open.
var ErrNoFile = errors.New("no such file")

// InspectSQLite reads the file of a Store through, as OpenSQLite would find it, and writes nothing. It
// returns what each tag has in max_id and step, -1 for what is no integer. It returns ErrNoFile, that the
// file is damaged, or why OpenSQLite would refuse it.
func InspectSQLite(ctx context.Context, path string) (rows []TagFacts, err error) {
	err = inspectFile(ctx, path, table, func(d *database) error {
		rows, err = tagFacts(ctx, newSQLiteStore(d))
		return err
	})
	return rows, err
}

// InspectHighWater returns the marks of store in the file of a HighWater, and how many marks of other stores
// there are. It reads the file, and returns errors, as InspectSQLite does.
func InspectHighWater(ctx context.Context, path, store string) (marks []segment.Mark, others int, err error) {
	err = inspectFile(ctx, path, marksTable, func(d *database) error {
		var id int64
		err := d.look.QueryRowContext(ctx, selectStore, store).Scan(&id, &others)
		if errors.Is(err, sql.ErrNoRows) {
			return d.look.QueryRowContext(ctx, "SELECT count(*) FROM marks").Scan(&others)
		}
		m := &HighWater{db: d}
		m.store.Store(id)
		if err == nil {
			marks, err = m.marks(ctx, "")
		}
		return err
	})
	return marks, others, err
}

// TagFacts are what a table has of one tag: its Tag, MaxID and Step.
type TagFacts = segment.Row

// tagFacts returns what the table of s has.
func tagFacts(ctx context.Context, s *Store) ([]TagFacts, error) {
	rows, err := s.rowsOf(ctx, s.look, nil, func(f *form) string { return f.selects(false, false) })
	return rows, s.wrap(ctx, err, "read the tags")
}

// inspectFile checks the database at path, and calls look with it.
func inspectFile(ctx context.Context, path, wanted string, look func(*database) error) error {
	err := ensureFile(path, wanted, "")
	var d *database
	if err == nil {
		d, err = readOnly(path)
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	err = d.sound(ctx, wanted)
	if err == nil {
		err = look(d)
	}
	return errors.Join(err, d.close())
}

// readOnly opens the file at path so that nothing beside it is written either. Where
// no log lies beside it, no process has it open, and it is opened as immutable: SQLite
// would make a log otherwise, even to read.
func readOnly(path string) (*database, error) {
	query := "mode=ro&_pragma=busy_timeout(" + busyTimeout + ")"
	if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		query += "&immutable=1"
	}
	connector, err := sqliteConnector(path, query)
	if err != nil {
		return nil, err
	}
	p := newPool(connector, 1)
	return &database{fetch: p, change: p, look: p, list: p, dialect: sqliteDialect, place: path}, nil
}

// sound reads the whole file, and looks for the table.
func (d *database) sound(ctx context.Context, wanted string) error {
	verdict := ""
	err := d.read(ctx, d.look, "PRAGMA quick_check(1)", func(rows *sql.Rows) error { return rows.Scan(&verdict) })
	if err == nil && verdict != "ok" {
		return fmt.Errorf("damaged SQLite file: %s: %s; restore it from a backup, then set max_id above every ID ever issued", d.place, verdict)
	}
	if err == nil {
		err = d.hasTable(ctx, wanted)
	}
	return d.wrap(ctx, err, "read the database")
}
