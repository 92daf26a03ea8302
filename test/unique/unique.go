// Package unique finds out whether any ID was handed out twice, exactly, among as
// many IDs as fit on a disk and in bounded memory. No filter that errs is used:
// a billion IDs are sorted.
//
// While IDs come in they are only written to a journal, in the order in which they
// came and with where they came from: that costs a few nanoseconds an ID and little
// memory, so that the load that is measured isn't disturbed. Check then divides the
// range of all IDs into ranges of as many IDs as fit into memory, reads each of them
// from the journal and sorts it, so that equal IDs end up side by side. The places of
// the repeated ones are looked up in the journal.
//
// It is right for any int64. IDs that grow, as leafd's do, take one to ten bytes each
// in the journal, and each chunk of it is read about three times, because it is known
// which range is in which chunk. IDs in no order are read once for each range.
//
// A compressed bitmap (roaring) would need no ranges, but it has no bound: it takes 4
// bytes an ID of a busy worker, 36 of one that makes an ID a millisecond, and doesn't
// know where an ID came from.
//
// The verdict "no ID twice" rests on these, each of which is checked while it
// runs; where one doesn't hold, Check returns an error and no verdict:
//
//  1. every ID that was added is in exactly one chunk of the journal; a
//     chunk that could not be written whole breaks the journal for good;
//  2. a chunk is read back as it was written: its length and checksum,
//     which are kept in memory, say so;
//  3. a range is sorted with as many IDs as were counted in it;
//  4. what was compared is as many IDs of the same sum as were added: none
//     was lost, made up or altered on the way.
//
// The file is temporary and has no name from the moment it is opened: it is gone
// with the process, however it ends.
package unique

import (
	"errors"
	"fmt"
	"os"

	"github.com/leafd/leafd/internal/loadtest"
)

// Errors of this package. Those of the file system are wrapped beside them.
var (
	// ErrStorage is returned when the temporary file could not be made, written or
	// read back: whether an ID came twice isn't known.
	ErrStorage = errors.New("unique: temporary storage failed")
	// ErrDamaged is returned when something is read back that was not written.
	// Whether an ID came twice isn't known.
	ErrDamaged = errors.New("unique: temporary data came back altered")
	// ErrMemory is returned by New for less memory than MinMemory.
	ErrMemory = errors.New("unique: too little memory")
	// ErrChecked is returned by Add and Check after Check or Close was called.
	ErrChecked = errors.New("unique: the journal is closed")
)

// MinMemory is the least memory that a check works in, in bytes.
const MinMemory = 4 << 20

// DefaultMemory sorts 50 million IDs at a time, in bytes.
const DefaultMemory = 512 << 20

// MaxFirst is how many repeated IDs a Report shows with their places.
const MaxFirst = 10

// Options say what a check may use.
type Options struct {
	// Dir is the directory of the temporary file; empty: os.TempDir().
	Dir string
	// Memory is what a check takes at most, in bytes; at least MinMemory. While
	// IDs are added each Lane takes 70 kB; beside it there are some 50 bytes for
	// each 64 kB of the journal.
	Memory int64

	// create makes a temporary file; nil: createTemp. Tests inject faults here.
	create func(dir string) (file, error)
	// few is how many IDs are sorted at a time; 0: what Memory allows. Tests set it.
	few int
}

// Place is where an ID came from. Its time is kept in microseconds.
type Place = loadtest.Place

// Taker returns a loadtest.Config's Take that adds the IDs of each set to the journal at
// its index. failed is called with the error of a journal that breaks, which then has no
// verdict.
func Taker(failed func(error), journals ...*Journal) func(set int, p Place, ids []int64) {
	var lanes []*Lane
	for _, j := range journals {
		lanes = append(lanes, j.Lane())
	}
	return func(set int, p Place, ids []int64) {
		if err := lanes[set].Add(p, ids); err != nil {
			failed(err)
		}
	}
}

// Duplicate is an ID that came more than once.
type Duplicate struct {
	ID     int64
	Times  int64    // how often it came, 2 or more
	Places [2]Place // of its first two appearances, the earlier one first
}

// Report is the verdict.
type Report struct {
	// IDs is how many were added and compared.
	IDs int64
	// Repeated is how many different IDs came more than once.
	Repeated int64
	// Surplus is how many of the IDs should not have come: of an ID that came
	// three times, two.
	Surplus int64
	// First has the smallest repeated IDs, at most MaxFirst, in growing order.
	First []Duplicate
	// Bytes is what the check took on disk at most.
	Bytes int64
}

// Stage is a part of the check.
type Stage string

// The stages, in their order. Places are looked up when there are any to find.
const (
	StageCount  Stage = "counting"
	StageSort   Stage = "sorting"
	StageLocate Stage = "looking up places"
)

// Progress is called several times a second during a check, from its goroutine:
// done of total IDs have passed the stage.
type Progress func(stage Stage, done, total int64)

func (o Options) check() (Options, error) {
	if o.Memory < MinMemory {
		return o, fmt.Errorf("%w: %d bytes, at least %d are needed", ErrMemory, o.Memory, MinMemory)
	}
	if o.Dir == "" {
		o.Dir = os.TempDir()
	}
	if o.create == nil {
		o.create = createTemp
	}
	return o, nil
}

// capacity is how many IDs are sorted at a time: they take three quarters of the
// memory, and counters and buffers the rest.
func (o Options) capacity() int {
	if o.few > 0 {
		return o.few
	}
	return int(o.Memory / 4 * 3 / 8)
}
