package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/leafd/leafd/internal/plainfile"
	"github.com/leafd/leafd/segment"
)

// busyTimeout, in milliseconds, is how long SQLite itself waits for another process's lock. It ignores
// the context meanwhile, so this is short.
const busyTimeout = "1000"

// readerIdleTime is after how long the reading connection is closed, and its memory free.
const readerIdleTime = 5 * time.Second

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
func OpenSQLite(path string) (*Store, error) { return openSQLite(path, segmentsSchema) }

func openSQLite(path, schema string) (*Store, error) {
	db, err := openFile(path, table, schema)
	if err != nil {
		return nil, err
	}
	return newSQLiteStore(db), nil
}

func newSQLiteStore(db *database) *Store {
	s := newStore(db)
	s.known.Store(&form{
		dialect: db.dialect, description: "description", updated: true, maxID: math.MaxInt64, unique: true, key: db.text,
	})
	return s
}

// sqliteDialect is the dialect of SQLite.
var sqliteDialect = &dialect{ //nolint:gochecknoglobals // a constant
	begin:    "BEGIN IMMEDIATE",
	judge:    judgeSQLite,
	readOnly: "0", // a file that can't be written says so at the first write
	server:   "''",
	touch:    ", update_time = CURRENT_TIMESTAMP",
	text:     "CAST(%s AS TEXT)",
	bytes:    "CAST(biz_tag AS BLOB)",
	contains: "instr(lower(biz_tag), CAST(%s AS TEXT)) > 0",
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
	writer, readers := newPool(connector, 1), newPool(connector, otherConns)
	readers.SetConnMaxIdleTime(readerIdleTime)
	return &database{fetch: writer, change: writer, look: readers, list: readers, dialect: sqliteDialect, place: path}, nil
}

// hasTable returns an error for a database that isn't leafd's.
func (d *database) hasTable(ctx context.Context, wanted string) error {
	var found int
	err := d.fetch.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?", wanted).Scan(&found)
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
	_, err := d.fetch.ExecContext(ctx, "PRAGMA journal_mode=WAL")
	if code, _ := primary(err); code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED {
		return nil
	}
	return err
}

// primary returns the primary code of SQLite's answer in err, and its extended one; 0 without any.
func primary(err error) (code, extended int) {
	var answer *sqlite.Error
	if !errors.As(err, &answer) {
		return 0, 0
	}
	return answer.Code() & 0xff, answer.Code()
}

const writableHint = "the file and its directory have to be writable for leafd's user"

// codes are the answers of SQLite that leafd knows, by their primary codes. Any other is the one call's.
var codes = map[int]verdict{ //nolint:gochecknoglobals // a constant table
	sqlite3.SQLITE_BUSY:       {is: locked, hint: "another process holds the file's lock", sound: true},
	sqlite3.SQLITE_LOCKED:     {is: locked, hint: "another process holds the file's lock", sound: true},
	sqlite3.SQLITE_CONSTRAINT: {is: badRow, sound: true},
	sqlite3.SQLITE_TOOBIG:     {is: badRow, sound: true},
	sqlite3.SQLITE_MISMATCH:   {is: badRow, sound: true},
	sqlite3.SQLITE_NOTADB:     {is: notOurs, hint: "the file is not a SQLite database: move it away, or put back what was there"},
	sqlite3.SQLITE_CORRUPT:    {is: notOurs, hint: "the file is damaged: stop leafd and restore it from a backup, then set max_id above every ID ever issued"},
	sqlite3.SQLITE_CANTOPEN:   {is: notOurs, hint: writableHint},
	sqlite3.SQLITE_READONLY:   {is: noWrites, hint: writableHint},
	sqlite3.SQLITE_PERM:       {is: noWrites, hint: writableHint},
	sqlite3.SQLITE_FULL:       {is: notOurs, hint: "the disk is full", sound: true},
	sqlite3.SQLITE_IOERR:      {is: notOurs, hint: "reading or writing the file failed: look at the disk"},
}

// judgeSQLite is the dialect's judge.
func judgeSQLite(err error) verdict {
	code, extended := primary(err)
	switch {
	case extended == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY || extended == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
		return verdict{is: []error{segment.ErrTagExists}, sound: true}
	case errors.Is(err, context.DeadlineExceeded):
		return verdict{is: notOurs}
	case errors.Is(err, segment.ErrReadOnly):
		return verdict{is: noWrites}
	}
	v, known := codes[code]
	v.sound = v.sound || !known && code != 0
	return v
}

// IsFull reports whether SQLite has said that its disk is full.
func IsFull(err error) bool {
	code, _ := primary(err)
	return code == sqlite3.SQLITE_FULL
}

// openFile opens the SQLite database at path, which holds the table wanted, and
// makes it with schema where there is none.
//
// What holds, with several processes opening one path at once:
//
//  1. A database appears under path whole, with its table and synced, or not at
//     all. So a file without content or without the table was not left by a
//     crash of ours, and is refused.
//  2. A file that is there is never replaced.
//  3. A new database never meets the write-ahead log of one that is gone:
//     SQLite would play its pages into the new file.
//  4. No symbolic link is followed to a database, which SQLite would do, and
//     nothing that blocks is opened as one.
func openFile(path, wanted, schema string) (*database, error) {
	if err := ensureFile(path, wanted, schema); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db, err := sqliteDatabase(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	ctx := context.Background() // bounded by the attempts
	err = db.hasTable(ctx, wanted)
	if err == nil {
		err = db.useWAL(ctx)
	}
	if err != nil {
		return nil, errors.Join(db.wrap(ctx, err, "open the database"), db.close())
	}
	return db, nil
}

// ensureFile makes the database at path, unless there is a file; ErrNoFile without a schema.
func ensureFile(path, wanted, schema string) error {
	// Another process may make the file at any moment, but first the file,
	// then its log: so the logs are looked for first.
	orphan := ""
	for _, suffix := range []string{"-wal", "-journal", "-shm"} {
		switch info, err := os.Lstat(path + suffix); {
		case err != nil:
		case !info.Mode().IsRegular():
			return irregular(path+suffix, info)
		case info.Size() > 0 && suffix != "-shm":
			orphan = path + suffix
		}
	}
	info, err := os.Lstat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return irregular(path, info)
	case err == nil && info.Size() == 0:
		return errors.New("the file is empty, which leafd never leaves behind: put back what was there; " +
			"only where no ID of it was ever used, remove it")
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case orphan == "" && schema == "":
		return fmt.Errorf("%w: %s", ErrNoFile, path)
	case orphan != "":
		return fmt.Errorf("the file is gone, but %s is still there: put the file back; "+
			"only where no ID of it was ever used, remove both", orphan)
	}
	return createFile(path, wanted, schema)
}

// irregular refuses what is no regular file.
func irregular(path string, info fs.FileInfo) error {
	return fmt.Errorf("%s is a %s, which leafd doesn't follow or read: put the file itself there", path, plainfile.Kind(info.Mode()))
}

// createFile makes the database beside path and links it there.
func createFile(path, wanted, schema string) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(temp.Name())) }()
	if err := temp.Close(); err != nil {
		return err
	}
	if err := fill(temp.Name(), schema); err != nil {
		return fmt.Errorf("create table %s: %w", wanted, err)
	}
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err // where the file exists now, another process was quicker
	}
	return syncDir(filepath.Dir(path))
}

// fill runs schema on the empty database at path, and closes it, which moves
// everything into that one file and syncs it.
func fill(path, schema string) error {
	db, err := sqliteDatabase(path)
	if err != nil {
		return err
	}
	ctx := context.Background() // no other process knows the file
	err = db.useWAL(ctx)
	if err == nil {
		_, err = db.fetch.ExecContext(ctx, "BEGIN IMMEDIATE; "+schema+" COMMIT;")
	}
	return errors.Join(err, db.close())
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
