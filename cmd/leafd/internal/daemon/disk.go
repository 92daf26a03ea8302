package daemon

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/leafd/leafd/segment/sqlstore"
)

// DiskNeeds is how many free bytes the data directory has to have: a transaction of marks writes
// each page of 4 KiB that it changes twice, and a page has the marks of some 100 tags.
const DiskNeeds = 64 << 10

// fullDisk returns err with the disk by name, what is free there and what leafd needs, where err
// says that it is full.
func (d *daemon) fullDisk(err error) error {
	var s syscall.Statfs_t
	if !isFull(err) || syscall.Statfs(d.cfg.DataDir, &s) != nil {
		return err
	}
	free := uint64(s.Bavail) * uint64(s.Bsize) //nolint:gosec,unconvert // their types differ by system
	return fmt.Errorf("the disk of %s is full: %d bytes are free, and leafd needs %d: %w", d.cfg.DataDir, free, DiskNeeds, err)
}

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || sqlstore.IsFull(err)
}
