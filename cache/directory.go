package cache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/leafd/leafd/internal/plainfile"
	"github.com/leafd/leafd/worker"
)

// leftover matches the temporary files of a new record file, as renameio names them.
var leftover = regexp.MustCompile(`^\.worker\.json[0-9]+$`)

// fileOps are the steps of an Open and of a Save that tests make fail.
type fileOps struct {
	create     func(*os.Root) (*renameio.PendingFile, error)
	write      func(file *os.File, b []byte, offset int64) error
	sync       func(*os.File) error
	replace    func(*renameio.PendingFile) error
	makeMarker func(*os.Root) error // create and sync the marker
	syncDir    func(*os.File) error
	// What tells a directory from a copy: fileIdentity, fileSystemID and machineID.
	identity   func(path string, held fs.FileInfo) (id string, born bool)
	fileSystem func(path string) string
	machine    func() string
}

func realFiles() fileOps {
	return fileOps{
		create: func(root *os.Root) (*renameio.PendingFile, error) {
			return renameio.NewPendingFile(recordName, renameio.WithRoot(root), renameio.WithStaticPermissions(0o600))
		},
		write: func(file *os.File, b []byte, offset int64) error {
			_, err := file.WriteAt(b, offset)
			return err
		},
		sync:       syncData,
		replace:    func(p *renameio.PendingFile) error { return p.CloseAtomicallyReplace() },
		makeMarker: writeMarker,
		syncDir:    func(d *os.File) error { return d.Sync() },
		identity:   fileIdentity,
		fileSystem: fileSystemID,
		machine:    machineID,
	}
}

// directory is the data directory itself, wherever its path may lead later: what is
// written goes where the lock is.
type directory struct {
	path  string
	files fileOps
	root  *os.Root
	// self is open for the life of the directory, so that an error of writing the
	// directory back is never told to another process's handle alone.
	self *os.File
	// record is the record file that this process made, open for the same reason; nil
	// while there is none.
	record *os.File
}

// openDirectory opens the directory path, and creates it if it is missing.
func openDirectory(path string, files fileOps) (*directory, error) {
	if err := makeDirectory(path, files); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, failed(path, "open the data directory", err)
	}
	self, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(failed(path, "open the data directory", err), root.Close())
	}
	return &directory{path: path, files: files, root: root, self: self}, nil
}

// makeDirectory creates the directory path if it is missing. A new directory is made
// durable in its parent: one that vanished in a power cut would look like a
// first start.
func makeDirectory(path string, files fileOps) error {
	mkErr := os.Mkdir(path, 0o700)
	if mkErr != nil {
		st, err := os.Stat(path)
		switch {
		case err == nil && st.IsDir():
		case err == nil:
			return fmt.Errorf("data directory %s: %w: it is a %s; name a directory", path, syscall.ENOTDIR, plainfile.Kind(st.Mode()))
		default:
			return failed(path, "create the data directory", mkErr)
		}
	}
	parent, err := os.Open(filepath.Dir(path))
	if err == nil {
		err = errors.Join(files.syncDir(parent), parent.Close())
	}
	if err != nil && mkErr == nil {
		// The directory must not look ready made to the next start.
		return errors.Join(failed(filepath.Dir(path), "sync the parent of the new data directory", err), os.Remove(path))
	}
	// The parent of a directory that was there before may be closed to us.
	return nil
}

// read returns what the record file says.
func (f *directory) read() (content, error) {
	raw, err := f.readRecord()
	if errors.Is(err, fs.ErrNotExist) {
		return content{}, f.missing()
	}
	if err != nil {
		return content{}, err
	}
	found, err := decode(raw)
	if err != nil {
		return content{}, fmt.Errorf("%s: %w", filepath.Join(f.path, recordName), err)
	}
	return found, nil
}

// missing returns worker.ErrNoRecord at a first start, and worker.ErrLost if the record has gone.
func (f *directory) missing() error {
	marker := filepath.Join(f.path, markerName)
	_, err := f.root.Lstat(markerName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w", filepath.Join(f.path, recordName), worker.ErrNoRecord)
	case err != nil:
		return failed(marker, "look for the marker", err)
	}
	return fmt.Errorf("%s is missing, but %s says that a record was saved here: %w; "+
		"put the file back; if it is lost, and the clock is right and past every ID issued so far, "+
		"delete %[2]s too", filepath.Join(f.path, recordName), marker, errMissing)
}

// readRecord returns the record file's bytes; fs.ErrNotExist when there is none,
// worker.ErrDamaged when it is no regular file or too large.
func (f *directory) readRecord() ([]byte, error) {
	path := filepath.Join(f.path, recordName)
	raw, _, err := f.readFile(recordName, fileBytes+1)
	if errors.Is(err, errNoFile) {
		return nil, fmt.Errorf("%s: %w", path, damaged("%v", err))
	}
	if err != nil {
		return nil, failed(path, "read the record", err)
	}
	return raw, nil
}

// errNoFile: what has the name is no regular file.
var errNoFile = errors.New("no regular file")

// readFile returns the first bytes of the file name, at most most of them, and the file that
// they were read from; fs.ErrNotExist when there is none.
func (f *directory) readFile(name string, most int64) ([]byte, fs.FileInfo, error) {
	named, err := f.root.Lstat(name)
	if err == nil && !named.Mode().IsRegular() {
		err = fmt.Errorf("it is a %s, %w", plainfile.Kind(named.Mode()), errNoFile)
	}
	if err != nil {
		return nil, nil, err
	}
	// Not blocking: it may have become a FIFO since, or another daemon's new file.
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = file.Close() }() // read only
	held, err := file.Stat()
	if err == nil && !held.Mode().IsRegular() {
		err = fmt.Errorf("it is a %s now, %w", plainfile.Kind(held.Mode()), errNoFile)
	}
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, most))
	return text, held, err
}

// hasRecord reports whether the record file's path leads to the file that this process
// made, with its length: else it was deleted, replaced or cut.
func (f *directory) hasRecord() bool {
	if f.record == nil {
		return false
	}
	now, err := f.root.Lstat(recordName)
	if err != nil {
		return false
	}
	held, err := f.record.Stat()
	return err == nil && os.SameFile(held, now) && held.Size() == fileBytes
}

// overwrite writes the slot of a record in its place, durably.
func (f *directory) overwrite(sequence uint64, slot []byte) error {
	path := filepath.Join(f.path, recordName)
	if err := f.files.write(f.record, slot, int64(sequence%2)*slotBytes); err != nil {
		return failed(path, "write the record", err)
	}
	if err := f.files.sync(f.record); err != nil {
		return failed(path, "sync the record", err)
	}
	return nil
}

// replace makes a new file of raw the record file, durably, and the marker with it: a
// marker without its record, after a crash, would make an unused directory look as if it had
// lost one. ready is asked last before the rename.
func (f *directory) replace(raw []byte, ready func() error) error {
	p, err := f.prepare(raw)
	if err != nil {
		return err
	}
	// After a success it does nothing; after a failure, what it can't
	// remove the next Open will.
	defer func() { _ = p.Cleanup() }()
	if err := ready(); err != nil {
		return err
	}
	path := filepath.Join(f.path, recordName)
	if err := f.files.replace(p); err != nil {
		return failed(path, "replace the record", err)
	}
	if err := f.files.syncDir(f.self); err != nil {
		return failed(f.path, "sync the data directory after replacing the record", err)
	}
	if err := f.makeMarker(); err != nil {
		return err
	}
	// Where it leads to another process's file by now, the lock is lost too.
	file, err := f.root.OpenFile(recordName, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return failed(path, "open the record", err)
	}
	if f.record != nil {
		_ = f.record.Close() // the file before it, which has no name any more
	}
	f.record = file
	return nil
}

// prepare returns a temporary file that holds raw, synced.
func (f *directory) prepare(raw []byte) (*renameio.PendingFile, error) {
	p, err := f.files.create(f.root)
	if err != nil {
		return nil, failed(f.path, "create a temporary file in the data directory", err)
	}
	step := "write a temporary file in the data directory"
	err = f.files.write(p.File, raw, 0)
	if err == nil {
		step = "sync a temporary file in the data directory"
		err = f.files.sync(p.File)
	}
	if err != nil {
		_ = p.Cleanup()
		return nil, failed(f.path, step, err)
	}
	return p, nil
}

// setAside renames the record, durably, and returns its new name; "" for none.
func (f *directory) setAside() (string, error) {
	name := fmt.Sprintf("%s.aside-%d", recordName, time.Now().UnixMilli())
	err := f.root.Rename(recordName, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err == nil {
		err = f.files.syncDir(f.self)
	}
	if err != nil {
		return "", failed(filepath.Join(f.path, recordName), "set the record aside", err)
	}
	return name, nil
}

// probe finds out whether a record could be written, and leaves nothing behind.
func (f *directory) probe() error {
	p, err := f.prepare(make([]byte, fileBytes))
	if err != nil {
		return err
	}
	if err := p.Cleanup(); err != nil {
		return failed(f.path, "remove a temporary file from the data directory", err)
	}
	if err := f.files.syncDir(f.self); err != nil {
		return failed(f.path, "sync the data directory", err)
	}
	return nil
}

// makeMarker makes the marker, durably.
func (f *directory) makeMarker() error {
	err := f.files.makeMarker(f.root)
	if err == nil {
		err = f.files.syncDir(f.self)
	}
	if err != nil {
		return failed(filepath.Join(f.path, markerName), "write the marker", err)
	}
	return nil
}

// writeMarker creates and syncs the marker; a file of any kind that is there already is
// left alone.
func writeMarker(root *os.Root) error {
	m, err := root.OpenFile(markerName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = m.WriteString(markerText)
	return errors.Join(err, m.Sync(), m.Close())
}

// removeLeftovers removes the temporary files that a crash left behind,
// and nothing else.
func (f *directory) removeLeftovers() error {
	entries, err := fs.ReadDir(f.root.FS(), ".")
	if err != nil {
		return failed(f.path, "list the data directory", err)
	}
	for _, e := range entries {
		if !leftover.MatchString(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		if err := f.root.Remove(e.Name()); err != nil {
			return failed(filepath.Join(f.path, e.Name()), "remove the temporary file of an earlier run", err)
		}
	}
	return nil
}

func (f *directory) close() error {
	var err error
	if f.record != nil {
		err = f.record.Close()
	}
	return errors.Join(err, f.self.Close(), f.root.Close())
}
