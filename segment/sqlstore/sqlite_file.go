package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/leafd/leafd/internal/plainfile"
)

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
	if err := db.ready(ctx, wanted); err != nil {
		return nil, errors.Join(db.fail(ctx, err, "open the database"), db.close())
	}
	return db, nil
}

// ensureFile makes the database at path, unless there is a file.
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
		_, err = db.db.ExecContext(ctx, "BEGIN IMMEDIATE; "+schema+" COMMIT;")
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
