package loadtest

import (
	"cmp"
	"math/bits"
	"slices"
	"time"
)

// What a check keeps of the IDs, in memory: 32 bytes for each or each range, 200 MB at most.
const (
	maxKept  = 6 << 20
	rangeIDs = 17 // bits of a block of IDs, by which ranges are kept
)

// MaxFirst is how many repeated IDs a UniqueSet shows with their places.
const MaxFirst = 10

// UniqueSet is the verdict on IDs that must differ.
type UniqueSet struct {
	Key string `json:"key,omitempty"` // of Mode Segment: the tag
	// IDs is how many came, and Compared how many of them were compared with all that
	// came: all, where they fit into memory.
	IDs      int64 `json:"ids"`
	Compared int64 `json:"compared"`
	// Repeated is how many different IDs came more than once, and Surplus how many
	// should not have come: of an ID that came three times, two. Of those compared.
	Repeated int64 `json:"repeated"`
	Surplus  int64 `json:"surplus"`
	// First has the smallest repeated IDs, at most MaxFirst, in growing order; of ranges
	// the smallest that each two have in common.
	First []Duplicate `json:"first,omitempty"`
}

// Duplicate is an ID that came more than once.
type Duplicate struct {
	ID     int64    `json:"id,string"`
	Times  int64    `json:"times"`
	Places [2]Place `json:"places"` // of its first two appearances
}

// idSet finds the IDs that came more than once, in bounded memory. When there is no more room
// it keeps only IDs with a hash that begins with one more 0: what is left is a sample over the
// whole run, in which every ID was compared with all that came. Ranges are kept whole, cut at the
// ends of blocks of 2^rangeIDs IDs: the hash is the block's.
type idSet struct {
	ranges bool
	came   int64
	kept   []keptIDs // its capacity is all there is
	zeros  int       // that a hash has to begin with
}

// keptIDs are the IDs from first to last, of one block, with their Place.
type keptIDs struct {
	first, last     int64
	at              time.Duration
	client, request uint32
}

func newIDSet(room int, ranges bool) *idSet {
	return &idSet{ranges: ranges, kept: make([]keptIDs, 0, room)}
}

// add keeps the IDs of an answer.
func (s *idSet) add(p Place, ids []int64) {
	s.came += countIDs(ids, s.ranges)
	k := keptIDs{at: p.At, client: uint32(p.Client), request: uint32(p.Request)}
	if !s.ranges {
		for _, id := range ids {
			k.first, k.last = id, id
			s.keep(k)
		}
		return
	}
	for ; len(ids) > 1; ids = ids[2:] {
		for k.first = ids[0]; ; k.first = k.last + 1 {
			k.last = min(ids[1], k.first|(1<<rangeIDs-1))
			s.keep(k)
			if k.last == ids[1] { // which may be the largest there is
				break
			}
		}
	}
}

// keep keeps IDs that are in the sample.
func (s *idSet) keep(k keptIDs) {
	for len(s.kept) == cap(s.kept) && s.in(k) {
		s.zeros++
		s.kept = slices.DeleteFunc(s.kept, func(k keptIDs) bool { return !s.in(k) })
	}
	if s.in(k) {
		s.kept = append(s.kept, k)
	}
}

// in tells whether IDs are in the sample.
func (s *idSet) in(k keptIDs) bool {
	hashed := uint64(k.first)
	if s.ranges {
		hashed >>= rangeIDs
	}
	// Fibonacci hashing, Knuth, volume 3, 6.4.
	const golden = 0x9E3779B97F4A7C15
	return bits.LeadingZeros64(hashed*golden) >= s.zeros
}

// compare compares the IDs that were kept.
func (s *idSet) compare(key string) UniqueSet {
	u := UniqueSet{Key: key, IDs: s.came}
	slices.SortFunc(s.kept, func(a, b keptIDs) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.at, b.at)) })
	u.count(s.kept)
	return u
}

// count counts the repetitions among IDs that are sorted by their first. Before each, what has come goes to once, and what has come twice to twice.
func (u *UniqueSet) count(ids []keptIDs) {
	once, twice := int64(-1), int64(-1)
	for _, k := range ids {
		u.Compared += k.last - k.first + 1
		if again := min(k.last, once); again >= k.first {
			u.Surplus += again - k.first + 1
			if twice < again {
				from := max(k.first, twice+1)
				u.Repeated += again - from + 1
				twice = again
				if len(u.First) < MaxFirst { // they grow
					u.First = append(u.First, duplicate(from, ids))
				}
			}
		}
		once = max(once, k.last)
	}
}

// duplicate is an ID with where it is among ids, which are sorted by their first.
func duplicate(id int64, ids []keptIDs) Duplicate {
	d := Duplicate{ID: id}
	var places []keptIDs
	for _, k := range ids {
		if k.first > id {
			break
		}
		if k.last >= id {
			d.Times++
			places = append(places, k)
		}
	}
	slices.SortStableFunc(places, func(a, b keptIDs) int { return cmp.Compare(a.at, b.at) })
	copy(d.Places[:], []Place{places[0].place(), places[1].place()})
	return d
}

func (k keptIDs) place() Place {
	return Place{Client: int(k.client), Request: int64(k.request), At: k.at}
}
