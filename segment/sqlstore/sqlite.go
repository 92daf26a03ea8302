package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// busyTimeout, in milliseconds, is how long SQLite itself waits for
	// another process's lock. It ignores the context meanwhile, so this is
	// short, and the waiting is repeated from here.
	busyTimeout = "100"
	// busyAttempts of busyTimeout each make 5 s for a caller with a context that
	// ends later than that, or never.
	busyAttempts = 50
	// readerIdleTime is after how long the reading connection is closed, and
	// its memory free: tags are read once a minute.
	readerIdleTime = 5 * time.Second
)

// segmentsSchema makes the table as the Java Leaf's script does, with its tag.
// STRICT, for without it an integer that passes int64 becomes a REAL silently.
// The columns have no CHECKs: a row that was set by hand is refused when it is
// used, on every database alike, and the refusal says what fixes it.
const segmentsSchema = `CREATE TABLE leaf_alloc (
  biz_tag TEXT NOT NULL PRIMARY KEY,
  max_id INTEGER NOT NULL DEFAULT 1,
  step INTEGER NOT NULL,
  description TEXT DEFAULT NULL,
  update_time TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT;
INSERT INTO leaf_alloc (biz_tag, max_id, step, description)
  VALUES ('leaf-segment-test', 1, 2000, 'Test leaf Segment Mode Get Id');`

// OpenSQLite returns the Store in the SQLite file at path. Where there is no file
// it makes one, readable for its owner alone, with the tag leaf-segment-test.
// Several processes may use one file.
//
// A file that is empty, cut short, of another program or no database at all is
// an error that names it, and is left as it is: starting over would issue every
// ID again.
func OpenSQLite(path string) (*Store, error) {
	db, err := openFile(path, table, segmentsSchema)
	if err != nil {
		return nil, err
	}
	return newStore(db, db), nil // one writes at a time all the same, and a read waits for none
}

func sqliteDialect() *dialect {
	return &dialect{
		begin:    "BEGIN IMMEDIATE",
		attempts: busyAttempts,
		matchTag: "biz_tag = ? AND biz_tag COLLATE BINARY = ?",
		readOnly: "0", // a file that can't be written says so at the first write
		touch:    ", update_time = CURRENT_TIMESTAMP",
		literal:  strings.NewReplacer("'", "''"),
		judge:    judgeSQLite,
	}
}

// sqliteConnector returns a connector to the file at path; query are the settings of
// its connections.
func sqliteConnector(path, query string) (driver.Connector, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return sqlite.NewConnector((&url.URL{Scheme: "file", Path: filepath.ToSlash(absolute), RawQuery: query}).String())
}

// sqliteDatabase returns the database in the file at path, unopened.
//
// One connection writes, so that within this process transactions queue for it
// in order instead of polling for the file's lock; others read beside it.
func sqliteDatabase(path string) (*database, error) {
	// Every commit is synced: what was given out must be known after a power cut.
	connector, err := sqliteConnector(path, "_pragma=busy_timeout("+busyTimeout+")&_pragma=synchronous(FULL)&_pragma=cache_size(-512)")
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	readers := sql.OpenDB(connector)
	readers.SetMaxOpenConns(peopleConns)
	readers.SetMaxIdleConns(1)
	readers.SetConnMaxIdleTime(readerIdleTime)
	return &database{db: db, readers: readers, dialect: sqliteDialect(), idle: 1, place: path}, nil
}

// ready makes sure that the database can be used, and holds our table.
func (d *database) ready(ctx context.Context, wanted string) error {
	for attempt := 1; ; attempt++ {
		err := d.hasTable(ctx, wanted)
		if err == nil {
			return d.useWAL(ctx)
		}
		// verdictAgain: another process is recovering the file, or has it to itself.
		if d.verdict(err) != verdictAgain || attempt >= d.dialect.attempts {
			return err
		}
	}
}

// hasTable returns an error for a database that isn't leafd's.
func (d *database) hasTable(ctx context.Context, wanted string) error {
	var found int
	err := d.db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?", wanted).Scan(&found)
	if err == nil && found == 0 {
		err = fmt.Errorf("it is a SQLite database without table %s, so not leafd's", wanted)
	}
	return err
}

// useWAL has the database keep a write-ahead log, so that readers don't block
// writers. The setting stays in the file, and only a file that is known to be leafd's
// is changed. Without the log all is as correct, only slower: where another process is
// in the way, the next start tries again.
func (d *database) useWAL(ctx context.Context) error {
	_, err := d.db.ExecContext(ctx, "PRAGMA journal_mode=WAL")
	if err != nil && d.verdict(err) == verdictAgain {
		return nil
	}
	return err
}

// judgeSQLite is the dialect's judge.
func judgeSQLite(err error) (verdict, string) {
	var answer *sqlite.Error
	if !errors.As(err, &answer) {
		return verdictLost, ""
	}
	switch answer.Code() {
	case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE:
		return verdictDuplicate, ""
	}
	const writable = "the file and its directory have to be writable for leafd's user"
	switch answer.Code() & 0xff { // the primary code of an extended one
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return verdictAgain, "another process holds the file's lock"
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH:
		return verdictBadValue, ""
	case sqlite3.SQLITE_NOTADB:
		return verdictLost, "the file is not a SQLite database: move it away, or put back what was there"
	case sqlite3.SQLITE_CORRUPT:
		return verdictLost, "the file is damaged: stop leafd and restore it from a backup, " +
			"then set max_id above every ID ever issued"
	case sqlite3.SQLITE_CANTOPEN:
		return verdictLost, writable
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return verdictReadOnly, writable
	case sqlite3.SQLITE_FULL:
		return verdictAnswered, "the disk is full"
	case sqlite3.SQLITE_IOERR:
		return verdictLost, "reading or writing the file failed: look at the disk"
	}
	return verdictAnswered, ""
}

// IsFull tells that SQLite has said that its disk is full.
func IsFull(err error) bool {
	var answer *sqlite.Error
	return errors.As(err, &answer) && answer.Code()&0xff == sqlite3.SQLITE_FULL
}
