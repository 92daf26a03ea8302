package settings

import (
	"path/filepath"

	"github.com/leafd/leafd/segment/sqlstore"
)

// Files of the data directory, beside the record and the lock of package cache.
const (
	SegmentsFile = "segments.db" // the default segment store
	MarksFile    = "marks.db"    // the highest ID seen of each tag
)

// redact is a DSN as it may be shown.
func redact(dsn string) string { return sqlstore.RedactDSN(dsn) }

// Store says where the segments are kept: in the database of --mysql, or else in the
// SQLite file in the data directory, which may be made where create is true.
func (c *Config) Store(create bool) sqlstore.Config {
	return sqlstore.Config{DSN: c.Segment.MySQL, Path: filepath.Join(c.DataDir, SegmentsFile), Create: create}
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

// checkStore checks the DSN. A server that is down is no bad setting.
func (c *Config) checkStore(v *Values) {
	if err := c.Store(false).Check(); err != nil {
		v.refuse("mysql", err.Error())
	}
}
