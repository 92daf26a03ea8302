package settings

import (
	"fmt"
	"os"

	"github.com/leafd/leafd/internal/plainfile"
	"github.com/leafd/leafd/segment/sqlstore"
)

// warn adds a warning; "" is none.
func (c *Config) warn(text string) {
	if text != "" {
		c.Warnings = append(c.Warnings, text)
	}
}

// warnOfKey warns of a private key that every user of the machine can read.
func (c *Config) warnOfKey(setting, path string) {
	if info, err := os.Stat(path); err == nil {
		c.warn(plainfile.Exposed(setting+" "+path, info.Mode().Perm()))
	}
}

// Exposed is where more users than are meant to may be able to write what a daemon
// trusts, or see its memory. None of it is a reason to refuse a start: an ensemble or the
// volume of a container may be closed in a way that can't be seen from here.
func (c *Config) Exposed() []sqlstore.Weakness {
	var list []sqlstore.Weakness
	if len(c.ZooKeeper.Servers) > 0 && c.ZooKeeper.Auth == nil {
		list = append(list, sqlstore.Weakness{
			Found: "there is no --zk-auth-file: any client that reaches ZooKeeper can change what stands there, and so stop daemons or make them repeat IDs",
			Do:    "give all daemons one, unless no other client reaches the ensemble: docs/operations/zookeeper.md",
		})
	}
	if info, err := os.Stat(c.DataDir); err == nil && info.Mode().Perm()&0o022 != 0 {
		list = append(list, sqlstore.Weakness{
			Found: fmt.Sprintf("others can write to the data directory %s (mode %04o): they can forge the record of what was issued, and make the daemon repeat IDs", c.DataDir, info.Mode().Perm()),
			Do:    "chmod 0700 " + c.DataDir,
		})
	}
	return list
}
