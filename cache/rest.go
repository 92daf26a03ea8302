package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// restName is the file of what a process leaves to the next one.
const restName = "segments.rest"

// maxRest is the largest rest that is read: that of a million tags in use.
const maxRest = 256 << 20

// ErrRestRefused is returned by TakeRest for a rest that may have been used before.
var ErrRestRefused = errors.New("not what the last process left in this directory")

// SaveRest keeps rest durably for one process that has this directory next. Invariants:
//
//	rest-taken-once  TakeRest returns a rest only after the lock file names none, durably. So a
//	    rest that was used is never used again: a crash at any moment leaves one
//	    that was not used, or none.
//	-  A rest counts only while the lock file names it, by a digest of its bytes,
//	    of the file that has them (inode number and time of birth) and of the
//	    directory (DirectoryID). It is named last, when all of that is durable.
//	-  A copy of the directory, and a file that was put back, with the lock file or
//	    without, have another inode or were born at another time: their rest is
//	    refused. Where the file system keeps no time of birth nothing is kept, for an
//	    inode number may come again.
//	-  What this can't tell is a file system that was set back, or cloned, as a whole.
//	    The user of a rest has to learn that from elsewhere.
func (c *Cache) SaveRest(rest []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(); err != nil {
		return err
	}
	name, err := c.writeRest(rest)
	if err != nil {
		return c.orLocked(failed(filepath.Join(c.dir, restName), "keep what is left of ranges", err))
	}
	c.lock.rest = name
	if err := c.lock.write(c.directory, c.lock.lives); err != nil {
		return c.orLocked(err)
	}
	return c.lock.check()
}

// usable returns an error when the directory is not ours, or not any more.
func (c *Cache) usable() error {
	if c.directory == nil {
		return c.errClosed()
	}
	return c.lock.check()
}

// writeRest makes the file of rest, durably, and returns what the lock file calls it.
func (c *Cache) writeRest(rest []byte) (name string, err error) {
	f := c.directory
	if err := f.removeRest(); err != nil {
		return "", err
	}
	file, err := f.root.OpenFile(restName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := f.files.write(file, rest, 0); err != nil {
		return "", err
	}
	if err := f.files.sync(file); err != nil {
		return "", err
	}
	if err := f.files.syncDir(f.self); err != nil {
		return "", err
	}
	held, err := file.Stat()
	if err != nil {
		return "", err
	}
	return c.nameRest(held, rest)
}

// nameRest is what the lock file calls a rest in file (rest-taken-once).
func (c *Cache) nameRest(held fs.FileInfo, rest []byte) (string, error) {
	identity, born := c.files.identity(filepath.Join(c.dir, restName), held)
	if !born { // rest-taken-once
		return "", errors.New("the file system keeps no time of birth")
	}
	return digest("leafd rest %s %s %s", c.directoryID(), identity, rest), nil
}

// TakeRest returns what SaveRest kept last, once (rest-taken-once); nil where there is nothing.
// ErrRestRefused says that there is something that can't be used; it is gone then, too.
func (c *Cache) TakeRest() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(); err != nil {
		return nil, err
	}
	path := filepath.Join(c.dir, restName)
	rest, name, err := c.readRest()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, failed(path, "read what is left of ranges", err)
	}
	named := c.lock.rest
	if named != "" {
		c.lock.rest = ""
		if err := c.lock.write(c.directory, c.lock.lives); err != nil {
			return nil, c.orLocked(err)
		}
	}
	if err := c.directory.removeRest(); err != nil {
		return nil, failed(path, "remove what is left of ranges", err)
	}
	switch err := c.lock.check(); {
	case err != nil:
		return nil, err
	case name == "" && named == "":
		return nil, nil
	case name != named:
		return nil, fmt.Errorf("%s: %w: it was put back, or the directory is a copy, or a stop was cut short", path, ErrRestRefused)
	}
	return rest, nil
}

// HasRest tells whether TakeRest may have something.
func (c *Cache) HasRest() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lock != nil && c.lock.rest != ""
}

// readRest returns the rest in the file, and what the lock file would call it.
func (c *Cache) readRest() (rest []byte, name string, err error) {
	if named, err := c.directory.root.Lstat(restName); err == nil && named.Size() > maxRest {
		return nil, "", fmt.Errorf("it has more than %d bytes", maxRest) // it isn't read
	}
	rest, held, err := c.directory.readFile(restName, maxRest)
	if err != nil {
		return nil, "", err
	}
	if name, err = c.nameRest(held, rest); err != nil {
		return nil, "", nil //nolint:nilerr // it was kept elsewhere
	}
	return rest, name, nil
}

func (f *directory) removeRest() error {
	if err := f.root.Remove(restName); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
