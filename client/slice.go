package client

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// slice is sequence numbers of a daemon's that this process has for a time: IDs are made of them without a request. The
// borrower's time is the daemon's, `now` of the answer, plus the monotonic time since the answer came. It keeps:
//
//	B1  An ID carries the borrower's time, from <= time < until. What is checked is the value in the ID, so that no pause
//	    between reading the clock and making the ID repeats one.
//	B2  A place (a millisecond and one of its numbers) goes to one ID, and places grow: next moves by compare-and-swap, and
//	    up. So times never fall.
//	B3  After end no ID is made: the daemon may lend the numbers again from the millisecond after the one that end returns.
//	B4  A slice is made of an answer that is whole, has the name that was asked for, and fits its own layout and epoch.
type slice struct {
	name   string
	daemon *daemon
	begins time.Duration // client's monotonic time when the borrower's is from
	from   int64         // milliseconds since 1970
	epoch  int64
	shift  int   // bits below the time
	bits   int64 // of the datacenter, the worker and the first number
	size   int64 // numbers of a millisecond
	lasts  time.Duration
	until  int64 // the first place that isn't the slice's

	next atomic.Int64 // the first place without an ID; places count from the first number at `from`
}

// take returns an ID. Where there is none it is negative, and wait is how long until there may be one; 0: never.
func (l *slice) take(now time.Duration) (id int64, wait time.Duration) {
	since := int64(now - l.begins)
	if since < 0 {
		return -1, 0 // one that hasn't begun isn't waited for
	}
	ms := since / int64(time.Millisecond)
	first, after := ms*l.size, (ms+1)*l.size
	for {
		next := l.next.Load()
		place := next
		if place < first {
			// It begins at the number of this part of the millisecond, so that single IDs have all numbers as often: shards are id % 16.
			place = first + since%int64(time.Millisecond)*l.size/int64(time.Millisecond)
		}
		if place >= l.until {
			return -1, 0
		}
		if place >= after {
			return -1, time.Duration(place/l.size)*time.Millisecond - time.Duration(since)
		}
		if l.next.CompareAndSwap(next, place+1) {
			return (l.from+ms-l.epoch)<<l.shift | l.bits + (place - first), 0
		}
	}
}

// end ends the slice, and returns the last millisecond that has an ID; the one before from: none has.
func (l *slice) end() (used int64) {
	if l.size == 0 {
		return 0
	}
	return l.from + (l.next.Swap(math.MaxInt64)+l.size-1)/l.size - 1
}

// left returns for how long IDs can be made from now on.
func (l *slice) left(now time.Duration) time.Duration {
	return max(0, min(l.lasts, l.begins+l.lasts-now))
}

const longestLend = time.Hour // that daemons have

// parseSlice reads an answer that came at a monotonic time. It returns ErrBadResponse.
func parseSlice(body []byte, name string, came, lease time.Duration) (*slice, error) {
	a := struct { // what is absent stays as it is, and fits nothing
		Slice, Layout                                            string
		Worker, Datacenter, First, Last, From, Until, Now, Epoch int64
	}{Worker: -1, Datacenter: -1, First: -1, Last: -1, From: -1, Until: -1, Now: -1, Epoch: -1}
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("%w: a slice that is no JSON: %w", ErrBadResponse, err)
	}
	bits, ok := parseLayout(a.Layout)
	datacenter, worker, sequence := bits[1], bits[2], bits[3]
	if !ok || a.Slice != name || !fits(a.Datacenter, datacenter) || !fits(a.Worker, worker) || !fits(a.Last, sequence) || a.First < 0 || a.First > a.Last || a.Last-a.First >= 1<<20 ||
		min(a.Epoch, a.Now) < 0 || a.From < a.Epoch || !fits(a.Until-1-a.Epoch, bits[0]) ||
		!fits(a.Until, 43) || a.Until <= max(a.From, a.Now) || a.Until-min(a.From, a.Now) > longestLend.Milliseconds() {
		return nil, fmt.Errorf("%w: a slice that doesn't fit: %.300q", ErrBadResponse, body)
	}
	size, lasts := a.Last-a.First+1, min(a.Until, a.Now+lease.Milliseconds())-a.From
	return &slice{
		name: name, begins: came + time.Duration(a.From-a.Now)*time.Millisecond, from: a.From, epoch: a.Epoch, shift: datacenter + worker + sequence,
		bits: (a.Datacenter<<worker|a.Worker)<<sequence | a.First, size: size, until: lasts * size,
		lasts: time.Duration(lasts) * time.Millisecond,
	}, nil
}

// parseLayout returns the bits of time, datacenter, worker and sequence of a layout, which has four parts, or no datacenter.
func parseLayout(layout string) (bits [4]int, ok bool) {
	fields, sum := strings.Split(layout, "+"), 0
	if len(fields) == 3 {
		fields = slices.Insert(fields, 1, "0")
	}
	for i, field := range fields {
		n, err := strconv.ParseUint(field, 10, 6)
		if err != nil || len(fields) != 4 {
			return bits, false
		}
		bits[i], sum = int(n), sum+int(n)
	}
	return bits, sum <= 63
}

// fits reports whether n is a number of so many bits.
func fits(n int64, bits int) bool { return n >= 0 && n>>bits == 0 }
