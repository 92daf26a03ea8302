package snowflake

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/leafd/leafd/clock"
)

// DefaultEpoch is the Java Leaf's (and Twitter's) start of time:
// 2010-11-04T01:42:54.657Z, in milliseconds since the Unix epoch.
const DefaultEpoch clock.Millis = 1288834974657

// idBits is what a positive int64 has.
const idBits = 63

// ErrBadLayout is returned for a layout that can't carry IDs; the text says why.
var ErrBadLayout = errors.New("bad layout")

// ErrBadID is returned by Decode for a value that no generator of the layout
// can have issued.
var ErrBadID = errors.New("not an ID of this layout")

// ErrTimeExhausted is returned for a time that the layout can't represent:
// before its epoch or past its last millisecond.
var ErrTimeExhausted = errors.New("time outside the layout")

// Layout divides the 63 bits of an ID. The default, 41+10+12:
//
//	63  62                                      22 21        12 11            0
//	+---+-----------------------------------------+------------+--------------+
//	| 0 | time, ms since Epoch (41 bits)          | worker (10)| sequence (12)|
//	+---+-----------------------------------------+------------+--------------+
//
// The highest bit is always 0, so that an ID is a positive int64. A datacenter, where
// the layout has one, stands above the worker. A layout of fewer than 63 bits leaves the
// highest ones 0. The zero value is not valid.
type Layout struct {
	Epoch          clock.Millis // the time of timestamp 0, ms since the Unix epoch
	TimeBits       uint8        // 1..60, milliseconds since Epoch
	DatacenterBits uint8        // 0 when the layout has no datacenter
	WorkerBits     uint8        // 1..60
	SequenceBits   uint8        // 1..60
}

// DefaultLayout returns the Java Leaf's: 41 bits of milliseconds (69 years), 10 of
// worker ID (0..1023), 12 of sequence (4096 a millisecond).
func DefaultLayout() Layout {
	return Layout{Epoch: DefaultEpoch, TimeBits: 41, WorkerBits: 10, SequenceBits: 12}
}

// ParseLayout reads "time+worker+sequence" or "time+datacenter+worker+sequence",
// each a number of bits in decimal, e.g. "41+10+12" or "41+5+5+12". epoch is in
// milliseconds since the Unix epoch. It returns ErrBadLayout.
func ParseLayout(s string, epoch clock.Millis) (Layout, error) {
	fields := strings.Split(s, "+")
	if len(fields) != 3 && len(fields) != 4 {
		return Layout{}, fmt.Errorf("%w %q: want time+worker+sequence or time+datacenter+worker+sequence, e.g. 41+10+12", ErrBadLayout, s)
	}
	bits := make([]uint8, len(fields))
	for i, field := range fields {
		n, err := strconv.ParseUint(field, 10, 8)
		if err != nil || n < 1 || field[0] == '0' || field[0] == '+' {
			return Layout{}, fmt.Errorf("%w %q: part %d is %q: want a number of bits from 1 to 60", ErrBadLayout, s, i+1, field)
		}
		bits[i] = uint8(n)
	}
	l := Layout{Epoch: epoch, TimeBits: bits[0], WorkerBits: bits[len(bits)-2], SequenceBits: bits[len(bits)-1]}
	if len(bits) == 4 {
		l.DatacenterBits = bits[1]
	}
	if err := l.Validate(); err != nil {
		return Layout{}, err
	}
	return l, nil
}

// Validate returns ErrBadLayout where l can't carry IDs.
func (l Layout) Validate() error {
	if l.TimeBits < 1 || l.WorkerBits < 1 || l.SequenceBits < 1 {
		return fmt.Errorf("%w %s: time, worker and sequence need a bit each", ErrBadLayout, l)
	}
	if sum := int(l.TimeBits) + int(l.DatacenterBits) + int(l.WorkerBits) + int(l.SequenceBits); sum > idBits {
		return fmt.Errorf("%w %s: %d bits, and an ID has %d", ErrBadLayout, l, sum, idBits)
	}
	if l.Epoch < 0 || l.Epoch > maxEpoch {
		return fmt.Errorf("%w: epoch %d: want milliseconds since 1970, at most %d", ErrBadLayout, l.Epoch, maxEpoch)
	}
	return nil
}

// maxEpoch, 2200-01-01, keeps the epoch in nanoseconds inside int64.
const maxEpoch clock.Millis = 7258118400000

// String returns the form that ParseLayout reads.
func (l Layout) String() string {
	if l.DatacenterBits > 0 {
		return fmt.Sprintf("%d+%d+%d+%d", l.TimeBits, l.DatacenterBits, l.WorkerBits, l.SequenceBits)
	}
	return fmt.Sprintf("%d+%d+%d", l.TimeBits, l.WorkerBits, l.SequenceBits)
}

// HasDatacenter reports whether IDs carry a datacenter.
func (l Layout) HasDatacenter() bool { return l.DatacenterBits > 0 }

// MaxDatacenter returns the highest datacenter ID; 0 when the layout has none.
func (l Layout) MaxDatacenter() int64 { return ones(l.DatacenterBits) }

// MaxWorker returns the highest worker ID.
func (l Layout) MaxWorker() int64 { return ones(l.WorkerBits) }

// MaxSequence returns the highest sequence of a millisecond.
func (l Layout) MaxSequence() int64 { return ones(l.SequenceBits) }

// LeastLendBits is how many bits of sequence a layout has that can lend: half of it, in parts.
const LeastLendBits = 10

// Lends reports whether half of the sequence can be lent to others (Config.Half).
func (l Layout) Lends() bool { return l.SequenceBits >= LeastLendBits }

// End returns the last millisecond that an ID can carry.
func (l Layout) End() clock.Millis { return l.Epoch + clock.Millis(ones(l.TimeBits)) }

// ones returns the number with its lowest n bits set.
func ones(n uint8) int64 { return 1<<n - 1 }

func (l Layout) workerShift() uint8     { return l.SequenceBits }
func (l Layout) datacenterShift() uint8 { return l.SequenceBits + l.WorkerBits }
func (l Layout) timeShift() uint8       { return l.SequenceBits + l.WorkerBits + l.DatacenterBits }

// Parts is what an ID is made of.
type Parts struct {
	Time       clock.Millis // ms since the Unix epoch, not since the layout's
	Datacenter int64
	Worker     int64
	Sequence   int64
}

// Decode takes id apart. It returns ErrBadID for a negative value and for one
// with bits above the layout's.
func (l Layout) Decode(id int64) (Parts, error) {
	since := id >> l.timeShift()
	if id < 0 || since > ones(l.TimeBits) {
		return Parts{}, fmt.Errorf("%w: %d is outside 0..%d (layout %s)", ErrBadID, id, l.compose(ones(l.TimeBits), l.MaxDatacenter(), l.MaxWorker(), l.MaxSequence()), l)
	}
	return Parts{
		Time:       l.Epoch + clock.Millis(since),
		Datacenter: id >> l.datacenterShift() & l.MaxDatacenter(),
		Worker:     id >> l.workerShift() & l.MaxWorker(),
		Sequence:   id & l.MaxSequence(),
	}, nil
}

// Compose returns the ID made of p, the reverse of Decode. It returns
// ErrTimeExhausted for a time outside the layout and ErrBadID for another part
// outside it.
func (l Layout) Compose(p Parts) (int64, error) {
	if err := l.checkTime(p.Time); err != nil {
		return 0, err
	}
	for _, part := range []struct {
		name       string
		value, max int64
	}{{"datacenter", p.Datacenter, l.MaxDatacenter()}, {"worker", p.Worker, l.MaxWorker()}, {"sequence", p.Sequence, l.MaxSequence()}} {
		if part.value < 0 || part.value > part.max {
			return 0, fmt.Errorf("%w: %s %d is outside 0..%d (layout %s)", ErrBadID, part.name, part.value, part.max, l)
		}
	}
	return l.compose(int64(p.Time-l.Epoch), p.Datacenter, p.Worker, p.Sequence), nil
}

// Range returns the lowest and the highest ID that any worker can issue in the
// millisecond t: the bounds of a range scan by time. It returns
// ErrTimeExhausted for a time outside the layout.
func (l Layout) Range(t clock.Millis) (first, last int64, err error) {
	if err := l.checkTime(t); err != nil {
		return 0, 0, err
	}
	first = l.compose(int64(t-l.Epoch), 0, 0, 0)
	return first, first | ones(l.timeShift()), nil
}

func (l Layout) checkTime(t clock.Millis) error {
	if t < l.Epoch || t > l.End() {
		return fmt.Errorf("%w: %s is outside %s..%s (layout %s)", ErrTimeExhausted, t, l.Epoch, l.End(), l)
	}
	return nil
}

// compose puts parts together that are known to fit.
func (l Layout) compose(since, datacenter, worker, sequence int64) int64 {
	return since<<l.timeShift() | datacenter<<l.datacenterShift() | worker<<l.workerShift() | sequence
}
