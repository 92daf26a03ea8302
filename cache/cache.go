// Package cache keeps a daemon's own record in a file of its data directory: the
// worker.Cache that survives a crash, a full disk and a careless hand.
//
// The directory holds three files of this package:
//
//	leafd.lock     locked (flock) for the life of the process; its text, the
//	               process ID of the holder, only serves messages
//	worker.json    the record, readable, under a checksum; see codec.go
//	worker.saved   says that a record was saved here once, so that a record
//	               that has gone missing is not taken for a first start
//
// The directory belongs on a local file system. On NFS, flock depends on the
// server's lock service, which can forget a lock after a lost connection
// without telling its holder; nothing here can see that.
package cache

import (
	"errors"
	"fmt"
	"io/fs"
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
	marked    bool  // the marker is known to be durable
	refused   error // why the record found at Open must not be replaced, or nil
}

// Open locks the data directory dir, which it creates with mode 0700 if it is
// missing (its parent must exist: a missing parent is more often a volume that
// is not mounted than a wish for a new one), removes what a crash left behind,
// and proves that a record can be written there: one that is found is written
// again as it is.
//
// It returns worker.ErrLocked at once when another process holds the directory.
// A record that can't be trusted is no error here but of Load, and Save then
// refuses to replace it. The caller must Close what it got.
func Open(dir string) (*Cache, error) { return open(dir, realFiles()) }

func open(dir string, files fileOps) (*Cache, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("cache: data directory %q: %w; name it by an absolute path", dir, err)
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
	raw, _, err := c.read()
	switch {
	case err == nil:
		return c.write(raw)
	case errors.Is(err, worker.ErrNoRecord):
		return c.directory.probe()
	default:
		c.refused = err
		return c.directory.probe()
	}
}

// Path returns the absolute path of the record file.
func (c *Cache) Path() string { return filepath.Join(c.dir, recordName) }

// Load returns the record saved last. Errors: worker.ErrNoRecord when none was
// ever saved in this directory; worker.ErrDamaged when it is empty, cut short,
// altered, missing though one was saved (worker.ErrLost too), no regular file, or
// not leafd's;
// ErrNewer when a newer leafd wrote it; os.ErrClosed after Close.
func (c *Cache) Load() (worker.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.directory == nil {
		return worker.Record{}, c.errClosed()
	}
	_, r, err := c.read()
	if err != nil {
		return worker.Record{}, err
	}
	c.refused = nil
	return r, nil
}

// Save records r durably before it returns nil. Invariants:
//
//  1. The record file is only ever replaced by rename, with a file whose bytes
//     were synced before: at any moment it is a whole record or it is not there.
//  2. nil is returned only after the directory was synced too, so that the new
//     record, and the marker that one exists, outlive a power cut.
//  3. Up to the rename every failure leaves the old record in place. Only a
//     failure after it (of the directory's sync or of the marker) leaves open
//     which of the two a crash would bring back; both are whole.
//  4. A record that Load refuses as found at Open is never replaced; but one that
//     is missing is, by one that the registry gave (it names its cluster).
//  5. Nothing is written, and nil is never returned, once the lock file's path
//     no longer leads to the file that we hold locked, looked at before the
//     rename and again after it. So whoever locked a new lock file either read
//     our new record, or makes this Save fail; and as Open removes temporary
//     files, ours can't replace what that process has saved since.
//
// Errors: ErrBadRecord for a record that Load would not accept;
// worker.ErrLocked when the lock was lost, from then on until a new Open;
// os.ErrClosed after Close; anything else names the path, what failed and what
// to do.
func (c *Cache) Save(r worker.Record) error {
	raw, err := encode(r)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.directory == nil {
		return c.errClosed()
	}
	if c.refused != nil && !replaces(c.refused, r) {
		return fmt.Errorf("cache: not replacing the record found at start: %w", c.refused)
	}
	return c.write(raw)
}

// errMissing is both: without a registry, a lost record is as bad as a damaged one.
var errMissing = fmt.Errorf("%w, %w", worker.ErrDamaged, worker.ErrLost)

// replaces tells whether r may stand in for the record that was refused.
func replaces(refused error, r worker.Record) bool {
	return errors.Is(refused, worker.ErrLost) && r.Cluster != ""
}

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
		return fmt.Errorf("cache: close %s: %w", c.dir, err)
	}
	return nil
}

func (c *Cache) errClosed() error {
	return fmt.Errorf("cache: %s was closed: %w", c.dir, os.ErrClosed)
}

// read returns the record file's bytes and what they say.
func (c *Cache) read() ([]byte, worker.Record, error) {
	raw, err := c.directory.readRecord()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, worker.Record{}, c.missing()
	}
	if err != nil {
		return nil, worker.Record{}, err
	}
	r, err := decode(raw)
	if err != nil {
		return nil, worker.Record{}, fmt.Errorf("cache: %s: %w", c.Path(), err)
	}
	return raw, r, nil
}

// missing tells a first start from a record that has gone.
func (c *Cache) missing() error {
	marker := filepath.Join(c.dir, markerName)
	_, err := c.directory.root.Lstat(markerName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cache: %s: %w", c.Path(), worker.ErrNoRecord)
	case err != nil:
		return failed(marker, "look for the marker", err)
	}
	return fmt.Errorf("cache: %s is missing, but %s says that a record was saved here: %w; "+
		"put the file back; if it is lost, and the clock is right and past every ID issued so far, "+
		"delete %[2]s too", c.Path(), marker, errMissing)
}

// write keeps Save's invariants 1 to 3 and 5.
func (c *Cache) write(raw []byte) error {
	if err := c.directory.replace(raw, c.lock.check); err != nil {
		if lost := c.lock.check(); errors.Is(lost, worker.ErrLocked) {
			return lost // which may be why
		}
		return err
	}
	if !c.marked {
		// Only now: a marker that outlived a crash before the record did
		// would make a directory that was never used look robbed.
		if err := c.directory.mark(); err != nil {
			return err
		}
		c.marked = true
	}
	return c.lock.check()
}
