package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/daemon"
)

// Thresholds of the warnings about the directory.
const (
	slowSync    = time.Second // a third of the default report interval
	scarceBytes = 100 << 20
	scarceNodes = 1000
)

// dataDir is the directory of a daemon's state. The daemon creates it where it is
// missing and its parent is there.
type dataDir struct {
	path string
	// only tells that nothing else remembers which IDs were issued: losing the
	// directory at a reboot would repeat them.
	only  bool
	clock clock.Clock
}

// check finds out whether the directory is there or can be created, which user owns it, on
// what file system, with how much room, and whether a file in it can be written
// durably: one is, and removed again. It reports data-dir, data-fs, data-space and
// data-sync.
func (d dataDir) check(_ context.Context, r *report) {
	there := d.path
	info, err := os.Stat(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		there = filepath.Dir(filepath.Clean(d.path))
		if err := writable(there); err != nil {
			r.Fail("data-dir", fmt.Errorf("%s is missing, and can't be created in %s: %w", d.path, there, err), fmt.Sprintf("create %s, owned by the user that leafd runs as, with mode 0700, or correct --data-dir", d.path))
			return
		}
		r.OK("data-dir", "%s is missing: leafd creates it at its first start", d.path)
	case err != nil:
		r.Fail("data-dir", err, "correct --data-dir, or the rights of the directories above it")
		return
	case !info.IsDir():
		r.Fail("data-dir", fmt.Errorf("%s: %w", d.path, syscall.ENOTDIR), "name a directory with --data-dir")
		return
	default:
		d.rights(r, info)
	}
	d.fileSystem(r, there)
	if there == d.path {
		d.sync(r)
	}
}

// rights checks owner and mode.
func (d dataDir) rights(r *report, info fs.FileInfo) {
	owner, known := ownerOf(info)
	mode := info.Mode().Perm()
	if known && owner != os.Geteuid() && os.Geteuid() == 0 {
		r.Warn("data-dir", fmt.Sprintf("%s belongs to user %d with mode %04o, and this is run as root: it finds out nothing about that user's rights", d.path, owner, mode),
			"run leafd doctor as the user that leafd serve runs as")
		return
	}
	r.OK("data-dir", "%s, mode %04o", d.path, mode)
}

// fileSystem checks what the directory lies on, and the room there.
func (d dataDir) fileSystem(r *report, path string) {
	s, err := spaceOf(path)
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	if err != nil {
		r.Fail("data-fs", fmt.Errorf("the file system of %s gives no answer: %w", path, err), "look at the mount and the kernel's log")
		return
	}
	judgeFileSystem(r, path, s.kind, d.only)
	switch {
	case s.bytes < daemon.DiskNeeds || s.nodes == 0 && s.hasNodes:
		r.Fail("data-space", fmt.Errorf("%s is full: %d bytes and %d inodes are free, and leafd needs %d bytes: %w", path, s.bytes, s.nodes, daemon.DiskNeeds, syscall.ENOSPC), "free space there")
	case s.bytes < scarceBytes || s.nodes < scarceNodes && s.hasNodes:
		r.Warn("data-space", fmt.Sprintf("%d MiB and %d inodes are free at %s", s.bytes>>20, s.nodes, path), "free space: a start needs some, and so does each new range of a segment")
	default:
		r.OK("data-space", "%d MiB free", s.bytes>>20)
	}
}

// judgeFileSystem reports data-fs.
func judgeFileSystem(r *report, path, kind string, only bool) {
	const check, local = "data-fs", "name a directory on a local disk with --data-dir"
	found := path + " is on " + kind
	switch {
	case kind == "":
		r.OK(check, "local")
	case kind == "overlay":
		r.Warn(check, found+": in a container it goes when the container does", "mount a volume there")
	case kind == "fuse", kind == "9p":
		r.Warn(check, found+", behind which can be anything: locks and fsync may depend on others", local)
	case kind == "tmpfs" && !only:
		r.Warn(check, found+", which is empty after a reboot: ZooKeeper and the database remember most of it, but not all", local)
	case kind == "tmpfs":
		r.Fail(check, errors.New(found+", which is empty after a reboot: IDs would be issued a second time"), local)
	default: // of other machines
		r.Fail(check, errors.New(found+": locks and fsync there depend on others"), local)
	}
}

// sync writes a file durably, and removes it.
func (d dataDir) sync(r *report) {
	began := d.clock.Mono()
	if err := writeDurably(d.path); err != nil {
		r.Fail("data-sync", fmt.Errorf("no file can be written in %s: %w", d.path, err), "let the user that leafd runs as own the directory, on a file system that is mounted writable and has room")
		return
	}
	took := d.clock.Mono() - began
	if took > slowSync {
		r.Warn("data-sync", fmt.Sprintf("writing a file durably took %s", took.Round(time.Millisecond)), "take a faster disk, or one with less to do: each report of the clock is written so")
		return
	}
	r.OK("data-sync", "a file was written and synced in %s", took.Round(10*time.Microsecond))
}

func writeDurably(dir string) (err error) {
	file, err := os.CreateTemp(dir, ".doctor-*")
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
