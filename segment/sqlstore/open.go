package sqlstore

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// Hosts returns how many hosts the DSN names, each a replica of the others; 0 for a file, and
// for a DSN that can't be used.
func (c Config) Hosts() int {
	cfg, err := mysqlConfig(c.DSN)
	if c.Local() || err != nil {
		return 0
	}
	return len(hostsOf(cfg))
}

// Name names the store alike for each daemon and life that uses it: the DSN's hosts, in whichever
// order, and its database; or the file, without its directory, which may be moved.
func (c Config) Name() string {
	cfg, err := mysqlConfig(c.DSN)
	if c.Local() || err != nil {
		return filepath.Base(c.Path)
	}
	return strings.Join(slices.Sorted(slices.Values(hostsOf(cfg))), ",") + "/" + cfg.DBName
}

// Check returns ErrBadDSN if the DSN can't be used. It connects to nothing, and looks at no file.
func (c Config) Check() error {
	if c.Local() {
		return nil
	}
	_, err := newServers(c)
	return err
}

// SameDatabase reports whether a and b name one database, with any users and parameters: a
// Store of a may go on with b. On two tables at once one range would be given twice.
func SameDatabase(a, b string) bool {
	if a == b {
		return true
	}
	was, errA := mysqlConfig(a)
	is, errB := mysqlConfig(b)
	return errA == nil && errB == nil && was.DBName == is.DBName && Config{DSN: a}.Name() == Config{DSN: b}.Name()
}

// Open opens the Store that c says: see openMySQL and OpenSQLite. It returns ErrBadDSN, or ErrNoFile if the
// SQLite file is missing and Create is false: looking at a mistyped path must not make a store there.
func Open(c Config) (*Store, error) {
	if !c.Local() {
		return openMySQL(c)
	}
	if c.Create {
		if err := os.Mkdir(filepath.Dir(c.Path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("data directory: %w", err)
		}
		return OpenSQLite(c.Path)
	}
	return openSQLite(c.Path, "")
}
