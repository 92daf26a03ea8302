package cache

import (
	"os"

	"github.com/google/renameio/v2"
)

// What the tests of package cache_test need of the inside.
var (
	Encode = encode
	Decode = decode
	Frame  = frame
)

// Steps of a Save, as a Hook is told them, in the order they run in.
const (
	StepCreate  = "create"
	StepWrite   = "write"
	StepSync    = "sync"
	StepReplace = "replace"
	StepSyncDir = "sync directory"
	StepMark    = "mark"
)

// Hook is told each step with the temporary file, where there is one. An error
// that it returns is the step's.
type Hook func(step string, p *renameio.PendingFile) error

// OpenHooked is Open with before called instead of a step if it fails, and
// after once a step is done.
func OpenHooked(dir string, before, after Hook) (*Cache, error) {
	ops := realFiles()
	around := func(step string, p *renameio.PendingFile, do func() error) error {
		if err := before(step, p); err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
		return after(step, p)
	}
	return open(dir, fileOps{
		create: func(root *os.Root) (p *renameio.PendingFile, err error) {
			err = around(StepCreate, nil, func() error {
				p, err = ops.create(root)
				return err
			})
			return p, err
		},
		write: func(p *renameio.PendingFile, b []byte) error {
			return around(StepWrite, p, func() error { return ops.write(p, b) })
		},
		sync: func(p *renameio.PendingFile) error {
			return around(StepSync, p, func() error { return ops.sync(p) })
		},
		replace: func(p *renameio.PendingFile) error {
			return around(StepReplace, p, func() error { return ops.replace(p) })
		},
		mark: func(root *os.Root) error {
			return around(StepMark, nil, func() error { return ops.mark(root) })
		},
		syncDir: func(d *os.File) error {
			return around(StepSyncDir, nil, func() error { return ops.syncDir(d) })
		},
	})
}

// SyncDirectory is the step of a Save that syncs a directory, as it is without a Hook.
func SyncDirectory(d *os.File) error { return realFiles().syncDir(d) }

// OpenWatched is Open with synced told each directory after it was synced.
func OpenWatched(dir string, synced func(d *os.File)) (*Cache, error) {
	ops := realFiles()
	syncDir := ops.syncDir
	ops.syncDir = func(d *os.File) error {
		err := syncDir(d)
		synced(d)
		return err
	}
	return open(dir, ops)
}
