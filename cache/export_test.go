package cache

import (
	"io/fs"
	"os"

	"github.com/google/renameio/v2"

	"github.com/leafd/leafd/worker"
)

// What the tests of package cache_test need of the inside.
const (
	SlotBytes = slotBytes
	FileBytes = fileBytes
)

// FileSystemID is the ID of the file system that a path is on.
var FileSystemID = fileSystemID

// SyncData is the step of a Save that syncs a file.
var SyncData = syncData

// File returns a file with the same record in both slots.
func File(record []byte) []byte { return newFile(record).raw }

// Encode returns a file with r in both slots.
func Encode(r worker.Record) ([]byte, error) {
	_, record, err := encode(r)
	return File(record), err
}

// EncodeSlot returns the slot of r.
func EncodeSlot(sequence uint64, r worker.Record) ([]byte, error) {
	_, record, err := encode(r)
	return frame(sequence, record), err
}

// Decode returns the record that a file has.
func Decode(raw []byte) (worker.Record, error) {
	found, err := decode(raw)
	if err != nil {
		return worker.Record{}, err
	}
	return found.record, nil
}

// Steps of a Save, as a Hook is told them, in the order they run in.
const (
	StepCreate  = "create"
	StepWrite   = "write"
	StepSync    = "sync"
	StepReplace = "replace"
	StepSyncDir = "sync directory"
	StepMark    = "mark"
)

// Hook is told each step. An error that it returns is the step's.
type Hook func(step string) error

// OpenHooked is Open with before called instead of a step if it fails, and
// after once a step is done.
func OpenHooked(dir string, before, after Hook) (*Cache, error) {
	ops := realFiles()
	around := func(step string, do func() error) error {
		if err := before(step); err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
		return after(step)
	}
	return open(dir, fileOps{
		create: func(root *os.Root) (p *renameio.PendingFile, err error) {
			err = around(StepCreate, func() error {
				p, err = ops.create(root)
				return err
			})
			return p, err
		},
		write: func(f *os.File, b []byte, offset int64) error {
			return around(StepWrite, func() error { return ops.write(f, b, offset) })
		},
		sync: func(f *os.File) error {
			return around(StepSync, func() error { return ops.sync(f) })
		},
		replace: func(p *renameio.PendingFile) error {
			return around(StepReplace, func() error { return ops.replace(p) })
		},
		makeMarker: func(root *os.Root) error {
			return around(StepMark, func() error { return ops.makeMarker(root) })
		},
		syncDir: func(d *os.File) error {
			return around(StepSyncDir, func() error { return ops.syncDir(d) })
		},
		identity:   ops.identity,
		fileSystem: ops.fileSystem,
		machine:    ops.machine,
	})
}

// Disk has the steps that touch the disk; nil ones are the real ones.
type Disk struct {
	Write      func(file *os.File, b []byte, offset int64) error
	Sync       func(file *os.File) error
	SyncDir    func(dir *os.File) error
	NoBirth    bool          // it keeps no time of birth
	FileSystem func() string // its ID
	Machine    func() string // the machine's ID
}

// OpenOn is Open on a disk.
func OpenOn(dir string, disk Disk) (*Cache, error) {
	ops := realFiles()
	if disk.Write != nil {
		ops.write = disk.Write
	}
	if disk.Sync != nil {
		ops.sync = disk.Sync
	}
	if disk.SyncDir != nil {
		ops.syncDir = disk.SyncDir
	}
	if disk.NoBirth {
		ops.identity = func(string, fs.FileInfo) (string, bool) { return "12345", false }
	}
	if disk.FileSystem != nil {
		ops.fileSystem = func(string) string { return disk.FileSystem() }
	}
	if disk.Machine != nil {
		ops.machine = disk.Machine
	}
	return open(dir, ops)
}
