package daemon

import (
	"errors"
	"syscall"

	"github.com/leafd/leafd/segment/sqlstore"
)

// DiskNeeds is how many free bytes the data directory has to have: a transaction of marks writes
// each page of 4 KiB that it changes twice, and a page has the marks of some 100 tags.
const DiskNeeds = 64 << 10

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || sqlstore.IsFull(err)
}
