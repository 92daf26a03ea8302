package settings

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/leafd/leafd/internal/plainfile"
	"github.com/leafd/leafd/segment/sqlstore"
)

// Files of the data directory, beside the record and the lock of package cache.
const (
	SegmentsFile = "segments.db" // the default segment store
	MarksFile    = "marks.db"    // the highest ID seen of each tag
)

// PackageDataDir is the data directory of the packages' service.
const PackageDataDir = "/var/lib/leafd"

// Store says where the segments are kept: in the database of --mysql, or else in the
// SQLite file in the data directory, which may be made where create is true.
func (c *Config) Store(create bool) sqlstore.Config {
	kept := sqlstore.Config{DSN: c.Segment.MySQL, TLS: c.Segment.TLS, Path: filepath.Join(c.DataDir, SegmentsFile), Create: create}
	if path := c.Segment.PasswordFile; path != "" {
		kept.Password = func() (string, error) {
			password, _, err := readPassword(path)
			return password, err
		}
	}
	return kept
}

// maxPassword is the size of a password's file.
const maxPassword = 4 << 10

// readPassword returns the first line of the file at path, and a warning of its permissions.
func readPassword(path string) (password, warning string, err error) {
	content, mode, err := plainfile.Read(path, maxPassword)
	if err != nil {
		return "", "", fmt.Errorf("reading the password: %w", err)
	}
	password, _, _ = strings.Cut(string(content), "\n")
	if password = strings.TrimSuffix(password, "\r"); password == "" {
		return "", "", fmt.Errorf("reading the password: %s has none in its first line", path)
	}
	return password, plainfile.Exposed(path, mode), nil
}

// Unguarded is what to tell of a daemon that shares its segments, and has no ZooKeeper to
// guard them: a Weakness of the database that nothing makes up for. Nil where it is none.
func (c *Config) Unguarded() []sqlstore.Weakness {
	if !c.Segment.On || c.Store(false).Local() || len(c.ZooKeeper.Servers) > 0 {
		return nil
	}
	return []sqlstore.Weakness{{
		Found: "without --zk nothing guards its ranges: where it loses commits, daemons repeat each other's IDs",
		Do:    "name the ensemble with --zk, unless this daemon is the only one on this database",
	}}
}

// checkStore checks the DSN. A server that is down is no bad setting. A cluster's segments need a database: the SQLite
// file of one daemon knows nothing of the others' ranges.
func (c *Config) checkStore(v *Values) {
	if cluster := len(c.ZooKeeper.Servers) > 0; cluster && c.Segment.On && c.Segment.MySQL == "" {
		if !c.Snowflake.On {
			v.refuse("modes", "want mysql with zk: the segments of a cluster are in a database that its daemons share")
		}
		c.Segment.On = false
	}
	c.Segment.PasswordFile = v.Text("mysql-password-file")
	for _, name := range []string{"mysql-password-file", "mysql-tls-ca"} {
		if v.Text(name) != "" && c.Segment.MySQL == "" {
			v.refuse(name, "want mysql with it")
		}
	}
	if path := c.Segment.PasswordFile; path != "" {
		_, warning, err := readPassword(path)
		if err != nil {
			v.refuse("mysql-password-file", err.Error())
		}
		c.warn(warning)
	}
	if ca := v.Text("mysql-tls-ca"); ca != "" {
		if ca == systemCAs {
			ca = ""
		}
		conf, err := plainfile.TLSFiles{CA: ca}.Config()
		if err != nil {
			v.refuse("mysql-tls-ca", err.Error())
		}
		c.Segment.TLS = conf
	}
	if err := c.Store(false).Check(); err != nil {
		v.refuse("mysql", err.Error())
		return
	}
	if c.Store(false).Hosts() > 1 {
		switch {
		case v.good("zk") && len(c.ZooKeeper.Servers) == 0:
			v.refuse("mysql", "want zk with several hosts: nothing else knows what a host that takes over lacks")
		case v.given("segment-guard") && c.Segment.Guard == guardPrefer:
			v.refuse("segment-guard", "want require with several hosts in mysql, or none")
		}
	}
}
