package segment

import "sync/atomic"

// refillDivisor: the next range is fetched once 1/refillDivisor of the current
// one is used, as in the Java Leaf.
const refillDivisor = 10

// cacheLine is the unit in which processors take memory from each other.
const cacheLine = 64

// span is a range being handed out.
//
// Lo, size and refill never change once the span is published; used only
// grows, but for close, which makes it size. An offset belongs to the one caller
// that moved used across it by its add, and counts only if it lies below size. size is at
// most 2^63-1, so used, which is unsigned, would need overshooting adds of another 2^63
// together to wrap: 2^56 of the largest that Tag.Try is asked for.
//
// used has a cache line of its own: the processors that fight for it keep
// their copies of the constants.
type span struct {
	lo     int64
	size   uint64
	refill uint64 // the caller that takes this offset starts the fetch of the next range
	_      [cacheLine - 3*8]byte
	used   atomic.Uint64
	_      [cacheLine - 8]byte
}

// newSpan returns [lo, hi) as a span, nothing of it used. Reserve sees to it that it is valid.
func newSpan(lo, hi int64) *span {
	size := uint64(hi - lo) //nolint:gosec // 0 <= lo < hi
	return &span{lo: lo, size: size, refill: (size - 1) / refillDivisor}
}

// exhausted reports whether every offset has an owner.
func (s *span) exhausted() bool { return !s.has(1) }

// has reports whether n offsets, 1 at least, have no owner.
func (s *span) has(n int) bool {
	used := s.used.Load()
	return used < s.size && s.size-used >= uint64(n) //nolint:gosec // n > 0
}

// run takes up to most IDs, 1 at least, that no other caller gets: first and those that
// follow it. n is how many; refill tells whether the refill mark was among them.
func (s *span) run(most int) (first int64, n int, refill bool) {
	end := s.used.Add(uint64(most)) //nolint:gosec // most > 0
	from := end - uint64(most)      //nolint:gosec // most > 0
	if from >= s.size {
		return 0, 0, false
	}
	end = min(end, s.size)
	return s.lo + int64(from), int(end - from), from <= s.refill && s.refill < end //nolint:gosec // from < size <= 2^63-1-lo, end-from <= most
}

// taken returns how many offsets have an owner.
func (s *span) taken() int64 { return int64(min(s.used.Load(), s.size)) } //nolint:gosec // size fits int64

// close hands out nothing more, and returns how many offsets had an owner by
// then: those of adds before the swap lie below what it returns, those of adds
// after it at size or above. Adding the rest of a large range instead could wrap.
func (s *span) close() int64 { return int64(min(s.used.Swap(s.size), s.size)) } //nolint:gosec // size fits int64

// hi returns the end of the range.
func (s *span) hi() int64 { return s.lo + int64(s.size) } //nolint:gosec // Hi fits int64

// position returns the first ID that was not handed out.
func (s *span) position() int64 { return s.lo + s.taken() }
