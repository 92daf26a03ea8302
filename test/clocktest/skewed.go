package clocktest

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/leafd/leafd/clock"
)

// Skewed is the machine's clock with a wall clock that is off by an amount kept
// in a small shared file, so that one process can step the clock of another one
// that runs.
type Skewed struct {
	clock.Clock
	offsetNS *atomic.Int64 // lies in the mapped file
	mapped   []byte
}

var _ clock.Clock = (*Skewed)(nil)

const skewBytes = 8

// OpenSkewed maps the file at path, and makes it if there is none (offset 0).
func OpenSkewed(path string) (*Skewed, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("clocktest: open %s: %w", path, err)
	}
	defer file.Close() //nolint:errcheck // the mapping outlives the descriptor
	if err := file.Truncate(skewBytes); err != nil {
		return nil, fmt.Errorf("clocktest: size %s: %w", path, err)
	}
	mapped, err := unix.Mmap(int(file.Fd()), 0, skewBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("clocktest: map %s: %w", path, err)
	}
	offsetNS := (*atomic.Int64)(unsafe.Pointer(&mapped[0])) // a page is aligned, and its first bytes are ours
	return &Skewed{Clock: clock.System(), offsetNS: offsetNS, mapped: mapped}, nil
}

// Set makes the wall clock differ from the machine's by d, in every process
// that has the file open.
func (s *Skewed) Set(d time.Duration) { s.offsetNS.Store(int64(d)) }

// Close unmaps the file; the clock must not be read afterwards.
func (s *Skewed) Close() error { return unix.Munmap(s.mapped) }

// Wall implements clock.Clock.
func (s *Skewed) Wall() (int64, time.Duration) {
	wallNS, mono := s.Clock.Wall()
	return wallNS + s.offsetNS.Load(), mono
}

// Read implements clock.Clock.
func (s *Skewed) Read() clock.Reading {
	r := s.Clock.Read()
	r.WallNS += s.offsetNS.Load()
	return r
}
