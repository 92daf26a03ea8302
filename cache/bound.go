package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/leafd/leafd/worker"
)

// BoundName is the file that binds the segments' table to the data directory: it names itself.
const BoundName = "segments.directory"

// BindSegments binds a segment store beside the record to this directory, durably, and before the
// store is opened. fresh: there is no store yet. It returns worker.ErrCopied by this rule,
// os.ErrClosed after Close, or the error of the file:
//
// A store with a binding file that names another file is a copy, and its ranges are the original's:
// copying changes that name (DirectoryID). A store without a binding file is bound here, as is any
// where copies can't be told apart.
func (c *Cache) BindSegments(fresh bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(); err != nil {
		return err
	}
	path := filepath.Join(c.dir, BoundName)
	bound, err := c.directory.bound(path)
	switch {
	case err != nil:
		return failed(path, "read what binds the segments", err)
	case bound == boundHere:
		return nil
	case bound == boundElsewhere && !fresh:
		return copied(path)
	}
	if err := c.bind(path); err != nil {
		return c.orLocked(failed(path, "write what binds the segments", err))
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

// CheckSegments returns worker.ErrCopied if BindSegments would refuse the store in dir. It takes no
// lock, and writes nothing.
func CheckSegments(dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return failed(dir, "look for the data directory", err)
	}
	root, err := os.OpenRoot(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return failed(dir, "open the data directory", err)
	}
	defer func() { _ = root.Close() }() // read only
	path := filepath.Join(abs, BoundName)
	bound, err := (&directory{path: abs, files: realFiles(), root: root}).bound(path)
	if err != nil {
		return failed(path, "read what binds the segments", err)
	}
	if bound == boundElsewhere {
		return copied(path)
	}
	return nil
}

func copied(path string) error {
	return fmt.Errorf("%w: %s says that the segments were served from another data directory, of which this one is a copy: "+
		"they are the original's; delete the copied segments.db* and marks.db* to begin with a table of its own, "+
		"or, where the original never runs again, set max_id in leaf_alloc of segments.db above every ID that it issued, and delete %[2]s", worker.ErrCopied, path)
}

// binding says to which directory a store is bound.
type binding int

const (
	boundNowhere binding = iota // also where a crash left the file empty
	boundHere
	boundElsewhere
)

func (d *directory) bound(path string) (binding, error) {
	text, held, err := d.readFile(BoundName, fileBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return boundNowhere, nil
	case err != nil || len(text) == 0:
		return boundNowhere, err
	case string(text) == d.files.idOf(path, held)+"\n":
		return boundHere, nil
	}
	return boundElsewhere, nil
}

// bind makes the file at path, in which it names itself.
func (c *Cache) bind(path string) error {
	f, err := c.directory.root.OpenFile(BoundName, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is synced
	held, err := f.Stat()
	if err != nil {
		return err
	}
	if err := c.files.write(f, []byte(c.files.idOf(path, held)+"\n"), 0); err != nil {
		return err
	}
	if err := c.files.sync(f); err != nil {
		return err
	}
	return c.files.syncDir(c.directory.self)
}
