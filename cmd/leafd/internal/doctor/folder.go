package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/leafd/leafd/clock"
)

// Thresholds of what is said about a folder.
const (
	slowSync    = time.Second // a third of the default report interval
	scarceBytes = 100 << 20
	scarceNodes = 1000
)

// Folder looks at the folder of a daemon's state, which the daemon makes where it is
// missing, in a folder that is there.
type Folder struct {
	Path string
	// Only tells that the folder is the only memory of IDs that were issued: losing
	// it at a reboot would repeat them.
	Only  bool
	Clock clock.Clock
}

// Check looks whether the folder is there or can be made, whose it is, on what file
// system, with how much room, and whether a file in it can be written durably: one
// is, and removed again. It reports data-dir, data-fs, data-space and data-sync.
func (f Folder) Check(_ context.Context, r *Report) {
	there := f.Path
	info, err := os.Stat(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		there = filepath.Dir(filepath.Clean(f.Path))
		if err := f.creatable(there); err != nil {
			r.Fail("data-dir", err, fmt.Sprintf("create %s, owned by the user that leafd runs as, with mode 0700, or correct --data-dir", f.Path))
			return
		}
		r.OK("data-dir", "%s is missing: leafd makes it at its first start", f.Path)
	case err != nil:
		r.Fail("data-dir", err, "correct --data-dir, or the rights of the folders above it")
		return
	case !info.IsDir():
		r.Fail("data-dir", fmt.Errorf("%s is no folder", f.Path), "name a folder with --data-dir")
		return
	default:
		f.rights(r, info)
	}
	f.fileSystem(r, there)
	if there == f.Path {
		f.sync(r)
	}
}

// creatable tells whether the folder could be made in parent.
func (f Folder) creatable(parent string) error {
	info, err := os.Stat(parent)
	switch {
	case err != nil:
		return fmt.Errorf("%s is missing, and so is the folder that it would be made in: %w", f.Path, err)
	case !info.IsDir():
		return fmt.Errorf("%s can't be made: %s is no folder", f.Path, parent)
	}
	if err := writable(parent); err != nil {
		return fmt.Errorf("%s is missing, and %s is not writable: %w", f.Path, parent, err)
	}
	return nil
}

// rights looks at owner and mode.
func (f Folder) rights(r *Report, info fs.FileInfo) {
	owner, known := ownerOf(info)
	mode := info.Mode().Perm()
	switch {
	case known && owner != os.Geteuid() && os.Geteuid() == 0:
		r.Warn("data-dir", fmt.Sprintf("%s belongs to user %d with mode %04o, and this is run as root: it finds out nothing about that user's rights", f.Path, owner, mode),
			"run leafd doctor as the user that leafd serve runs as")
	case mode&0o022 != 0:
		r.Warn("data-dir", fmt.Sprintf("%s can be written by others (mode %04o): they can replace the record of what was issued", f.Path, mode), "chmod 0700 "+f.Path)
	default:
		r.OK("data-dir", "%s, mode %04o", f.Path, mode)
	}
}

// fileSystem looks at what the folder lies on.
func (f Folder) fileSystem(r *Report, path string) {
	s, err := spaceOf(path)
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	if err != nil {
		r.Fail("data-fs", fmt.Errorf("the file system of %s gives no answer: %w", path, err), "look at the mount and the kernel's log")
		return
	}
	judgeFileSystem(r, path, s.kind, f.Only)
	switch {
	case s.bytes < scarceBytes || s.nodes < scarceNodes && s.hasNodes:
		r.Warn("data-space", fmt.Sprintf("%d MiB and %d inodes are free at %s", s.bytes>>20, s.nodes, path), "free space: a full disk takes no record, and issuing ends where ZooKeeper takes none either")
	default:
		r.OK("data-space", "%d MiB free", s.bytes>>20)
	}
}

// judgeFileSystem reports data-fs.
func judgeFileSystem(r *Report, path, kind string, only bool) {
	const local = "name a folder on a local disk with --data-dir"
	switch kind {
	case "nfs", "cifs", "smb", "smb2", "ceph", "fuse", "9p":
		found := fmt.Sprintf("%s is on %s: locks and fsync there depend on others", path, kind)
		if kind == "fuse" || kind == "9p" { // what is behind it can be anything, a local disk too
			r.Warn("data-fs", found, local)
			return
		}
		r.Fail("data-fs", errors.New(found), local)
	case "tmpfs", "ramfs":
		found := fmt.Sprintf("%s is on %s, which is empty after a reboot", path, kind)
		if only {
			r.Fail("data-fs", fmt.Errorf("%s: IDs would be issued a second time", found), local)
			return
		}
		r.Warn("data-fs", found+": ZooKeeper and the database remember the most of it, but not all", local)
	case "overlay":
		r.Warn("data-fs", path+" is on overlay: in a container it goes when the container does", "mount a volume there")
	default:
		r.OK("data-fs", "%s", kind)
	}
}

// sync writes a file durably, and removes it.
func (f Folder) sync(r *Report) {
	began := f.Clock.Mono()
	if err := writeDurably(f.Path); err != nil {
		r.Fail("data-sync", fmt.Errorf("no file can be written in %s: %w", f.Path, err), "let the user that leafd runs as own the folder, on a file system that is mounted writable and has room")
		return
	}
	took := f.Clock.Mono() - began
	if took > slowSync {
		r.Warn("data-sync", fmt.Sprintf("writing a file durably took %s", took.Round(time.Millisecond)), "take a faster disk, or one with less to do: each report of the clock is written so")
		return
	}
	r.OK("data-sync", "a file was written and synced in %s", took.Round(10*time.Microsecond))
}

func writeDurably(folder string) (err error) {
	file, err := os.CreateTemp(folder, ".doctor-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	_, err = file.Write(make([]byte, 4096))
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
