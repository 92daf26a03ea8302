package sqlstore

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Config says where the segments are kept. Only its methods know which field decides.
type Config struct {
	DSN string // of a MySQL or MariaDB database, as openMySQL takes it; "" for a SQLite file
	// Password returns the password of DSN's user, which has none itself, for each new
	// connection; nil: DSN says all.
	Password func() (string, error)
	TLS      *tls.Config // of connections, for a DSN without tls; nil: DSN says all
	Path     string      // of the SQLite file
	Create   bool        // Open makes the SQLite file where there is none, and its directory
}

// Local reports that the segments are in the SQLite file: no other machine shares
// them, and they are lost with the file's directory.
func (c Config) Local() bool { return c.DSN == "" }

// Kind names the kind of database: MySQL, which stands for MariaDB too, or SQLite.
func (c Config) Kind() string {
	if c.Local() {
		return "SQLite"
	}
	return "MySQL"
}

// Check returns ErrBadDSN for a DSN that can't be used. It connects to nothing, and
// looks at no file.
func (c Config) Check() error {
	if c.Local() {
		return nil
	}
	_, _, err := newMySQLConnector(c)
	return err
}

// Open opens the Store that c says: see openMySQL and OpenSQLite. ErrBadDSN, or
// ErrNoFile where the SQLite file is missing and Create is false: looking at a
// mistyped path must not make a store there.
func Open(c Config) (*Store, error) {
	if !c.Local() {
		return openMySQL(c)
	}
	if c.Create {
		if err := os.Mkdir(filepath.Dir(c.Path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("data directory: %w", err)
		}
	} else if _, err := os.Lstat(c.Path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNoFile, c.Path)
	}
	return OpenSQLite(c.Path)
}
