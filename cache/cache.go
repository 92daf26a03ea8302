// Package cache keeps a daemon's own record in a file of its data directory: the
// worker.Cache that survives a crash, a full disk and a careless hand.
//
// The directory holds four files of this package:
//
//	leafd.lock     locked (flock) for the life of the process; its text is the
//	               process ID, for messages, and digests of the owners
//	               that may have written the record
//	worker.json    the record, readable, twice: each Save writes the older of two
//	               slots over, under a checksum; see codec.go
//	worker.saved   says that a record was saved here once, so that a record
//	               that has gone missing is not taken for a first start
//	segments.directory  binds the segment store to the directory; see bound.go
//
// Each Open makes worker.json again, at the length that it keeps. A Save overwrites bytes
// of it that are there and syncs them, so that it needs no space and succeeds on a full
// disk, on file systems that write in place (ext4, XFS, tmpfs). Btrfs, ZFS and bcachefs
// write each change elsewhere: there a Save may fail for want of space all the same.
//
// The directory belongs on a local file system. On NFS, flock depends on the
// server's lock service, which can forget a lock after a lost connection
// without a sign; nothing here can see that.
package cache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/leafd/leafd/worker"
)

// Names of the files in the data directory.
const (
	lockName   = "leafd.lock"
	recordName = "worker.json"
	markerName = "worker.saved"
)

// markerText is what a person finds in the marker; only its existence counts.
const markerText = "A leafd daemon has saved its record in worker.json beside this file.\n" +
	"While this file is here, leafd refuses to start without that record: it would\n" +
	"no longer know up to which time it has issued IDs.\n"

var _ worker.Cache = (*Cache)(nil)

// Cache is a worker.Cache in a data directory that it holds locked. Its methods
// are safe for concurrent use. Make one with Open.
type Cache struct {
	dir   string // Immutable; absolute
	files fileOps

	mu        sync.Mutex // protects all below, and lets one Save run at a time
	directory *directory // nil once closed
	lock      *directoryLock
	sequence  uint64 // of the record that is known to be durable, in the file that directory has open
	owner     string // of that record; empty where there is none, or it was put back
	refused   error  // why the record found at Open must not be replaced, or nil
}

// Open locks the data directory dir, which it creates with mode 0700 if it is
// missing (its parent must exist: a missing parent is more often a volume that
// is not mounted than a wish for a new one), removes what a crash left behind,
// and proves that a record can be written there: one that is found is written
// again as it is, a slot that is damaged too.
//
// It returns worker.ErrLocked at once if another process holds the directory, and the error of the
// directory if nothing can be written there. A record that can't be trusted is an error of Load,
// not of Open, and Save then refuses to replace it. The caller must Close what it got.
func Open(dir string) (*Cache, error) { return open(dir, realFiles()) }

func open(dir string, files fileOps) (*Cache, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("data directory %q: %w; name it by an absolute path", dir, err)
	}
	c := &Cache{dir: abs, files: files}
	if err := c.start(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// start does what Open promises; after an error, Close releases what it took.
func (c *Cache) start() (err error) {
	if c.directory, err = openDirectory(c.dir, c.files); err != nil {
		return err
	}
	if c.lock, err = lockDirectory(c.directory); err != nil {
		return err
	}
	if err := c.directory.removeLeftovers(); err != nil {
		return err
	}
	found, err := c.directory.read()
	switch {
	case err == nil:
		if c.lock.wrote(found.record.Owner) {
			c.owner = found.record.Owner
		}
		return c.replace(found)
	case errors.Is(err, worker.ErrNoRecord):
		return c.directory.probe()
	default:
		c.refused = err
		return c.directory.probe()
	}
}

// Path returns the absolute path of the record file.
func (c *Cache) Path() string { return filepath.Join(c.dir, recordName) }

// Load returns the record saved last. Where one of the two slots is damaged it is the other's, with
// MaybeStale set: the one that is lost may have been the newer. It returns worker.ErrNoRecord if
// none was ever saved in this directory; worker.ErrDamaged if the file is empty, cut short, altered
// in both slots, missing though one was saved (worker.ErrLost too), no regular file, or not
// leafd's; ErrUnknownFormat if another leafd wrote it; os.ErrClosed after Close.
func (c *Cache) Load() (worker.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.directory == nil {
		return worker.Record{}, c.errClosed()
	}
	found, err := c.directory.read()
	if err != nil {
		return worker.Record{}, err
	}
	c.refused = nil
	found.record.Restored = !c.lock.wrote(found.record.Owner)
	return found.record, nil
}

// Save records r durably before it returns nil; of its peers it keeps as many as have
// room (Fit). Invariants:
//
//	whole-slots  A slot counts only as a whole, under its checksum, and of two the one with
//	    the greater sequence number. One alone doesn't tell whether the newer was
//	    lost: the record says so (MaybeStale), until a Save of this file has filled
//	    the other slot.
//	-  A Save writes one slot, never the one of the last record that a Save
//	    returned nil for: a failed Save's slot is written again by the next. So that
//	    record is intact however a write ends: whole, in part or in any order.
//	-  nil is returned only after the slot was synced. What a Save that failed
//	    leaves is the record before it, or its own.
//	-  A new record file, at Open, at the first Save, and where the file was taken
//	    away, has both slots' bytes synced before it is renamed into place, and
//	    the directory is synced after it, then the marker: at any moment the path leads
//	    to a whole file, or to none.
//	-  A record that Load refuses as found at Open, one that is missing too, is never
//	    replaced: only SetAside makes room for another.
//	-  nil is never returned once the lock file's path no longer leads to the file
//	    that we hold locked, looked at before the write and again after it. So a process
//	    that locked a new lock file either read our new record, or makes this Save fail;
//	    and as each Open makes a file of its own and removes temporary ones, a write of
//	    ours that comes late can't reach what that process has saved since.
//	-  The lock file names, durably and beforehand, the writer of the record, and
//	    at the first Save of a process also the writer of the one before: it may be all
//	    that is left. So a record of any other writer was put back from a backup, and
//	    Load says so (Restored) until the next Save.
//
// It returns ErrBadRecord if Load would not accept r; worker.ErrLocked once the lock was lost,
// until a new Open; os.ErrClosed after Close; any other error names the path, what failed and what
// to do.
func (c *Cache) Save(r worker.Record) error {
	_, record, err := encode(r)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.directory == nil {
		return c.errClosed()
	}
	if c.refused != nil {
		return fmt.Errorf("not replacing the record found at start: %w", c.refused)
	}
	if err := c.lock.check(); err != nil {
		return err
	}
	if r.Owner != c.owner {
		err = c.lock.name(c.directory, r.Owner, c.owner)
	} else if len(c.lock.lives) > 1 { // the other slot is written over now
		err = c.lock.name(c.directory, r.Owner)
	}
	if err != nil {
		return c.orLocked(err)
	}
	if !c.directory.hasRecord() {
		err = c.replace(newFile(record))
	} else {
		err = c.overwrite(record)
	}
	if err == nil {
		c.owner = r.Owner
	}
	return err
}

// overwrite writes the record in place.
func (c *Cache) overwrite(record []byte) error {
	if err := c.directory.overwrite(c.sequence+1, frame(c.sequence+1, record)); err != nil {
		return c.orLocked(err)
	}
	c.sequence++
	return c.lock.check()
}

// replace makes file the record file.
func (c *Cache) replace(file content) error {
	if err := c.directory.replace(file.raw, c.lock.check); err != nil {
		return c.orLocked(err)
	}
	c.sequence = file.sequence
	return c.lock.check()
}

// orLocked returns that the lock was lost, which may be why of err, or else err.
func (c *Cache) orLocked(err error) error {
	if lost := c.lock.check(); errors.Is(lost, worker.ErrLocked) {
		return lost
	}
	return err
}

// SetAside implements worker.Cache: the record is renamed, beside itself, with the time in
// its new name. One that is missing has no new name. Errors: worker.ErrLocked when the
// lock was lost; os.ErrClosed after Close.
func (c *Cache) SetAside() (name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.directory == nil {
		return "", c.errClosed()
	}
	if err := c.lock.check(); err != nil {
		return "", err
	}
	if name, err = c.directory.setAside(); err != nil {
		return "", err
	}
	c.refused = nil
	return name, nil
}

// errMissing is both: without a registry, a lost record is as bad as a damaged one.
var errMissing = fmt.Errorf("%w, %w", worker.ErrDamaged, worker.ErrLost)

// Close releases the lock and the directory. The files stay, the lock file too:
// removing it would let two processes hold two lock files of one name. It may
// be called more than once.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	if c.lock != nil {
		errs = append(errs, c.lock.release())
		c.lock = nil
	}
	if c.directory != nil {
		errs = append(errs, c.directory.close())
		c.directory = nil
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close %s: %w", c.dir, err)
	}
	return nil
}

func (c *Cache) errClosed() error {
	return fmt.Errorf("%s was closed: %w", c.dir, os.ErrClosed)
}
