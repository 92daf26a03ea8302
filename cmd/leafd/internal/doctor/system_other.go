//go:build !linux

package doctor

import (
	"errors"
	"io/fs"
)

// space is how much room a file system has.
type space struct {
	kind         string
	bytes, nodes uint64
	hasNodes     bool
}

func spaceOf(string) (space, error) { return space{}, errors.ErrUnsupported }

func writable(string) error { return nil }

func ownerOf(fs.FileInfo) (uid int, known bool) { return 0, false }

func kernelClock() (ntp, error) { return ntp{}, errors.ErrUnsupported }
