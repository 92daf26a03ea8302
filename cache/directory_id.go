package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
)

// machineIDPath names this installation of the system (machine-id(5)). Containers
// often have none.
const machineIDPath = "/etc/machine-id"

// DirectoryID tells this data directory from every copy of it, on this machine or another:
// it is a digest of the lock file's inode number and time of birth, which a copy doesn't
// keep, and of the machine's ID, of which a clone of the machine is given a new one. It
// stays the same across restarts, remounts and moves within the file system.
func (c *Cache) DirectoryID() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lock == nil {
		return "", c.errClosed()
	}
	return c.directoryID(), nil
}

func (c *Cache) directoryID() string {
	file := fileIdentity(c.lock.path, c.lock.held)
	machine, err := os.ReadFile(machineIDPath)
	if err != nil {
		machine = nil // not every system has one; the file's identity has to do
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "leafd home %s %s", file, bytes.TrimSpace(machine)))
	return hex.EncodeToString(sum[:8])
}
