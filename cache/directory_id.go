package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
)

// machineIDPath names this installation of the system (machine-id(5)). Containers
// often have none.
const machineIDPath = "/etc/machine-id"

// DirectoryID returns what tells this data directory from every copy of it, on this machine or
// another: a digest of the lock file's inode number and time of birth, which a copied file doesn't
// keep; of the file system's ID, which the snapshot of a subvolume or a volume has of its own; and
// of the machine's ID, which a cloned machine gets new. It stays the same across restarts and moves
// within the file system, and across remounts where the file system's ID does (XFS makes it of the
// device number). It is empty if there is neither a time of birth nor a machine ID: nothing tells a
// copy then. It returns the error of the lock file.
func (c *Cache) DirectoryID() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lock == nil {
		return "", c.errClosed()
	}
	return c.directoryID(), nil
}

func (c *Cache) directoryID() string { return c.files.idOf(c.lock.path, c.lock.held) }

// idOf returns what tells the file at path, and so its directory, from a copy.
func (o fileOps) idOf(path string, held fs.FileInfo) string {
	file, born := o.identity(path, held)
	machine := o.machine()
	if !born && machine == "" {
		return ""
	}
	return digest("leafd directory %s %s %s", file, o.fileSystem(path), machine)
}

// digest returns a short text that differs where texts do.
func digest(format string, args ...any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, format, args...))
	return hex.EncodeToString(sum[:8])
}

// machineID returns the system's ID; empty for none.
func machineID() string {
	id, err := os.ReadFile(machineIDPath)
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(id))
}
