package loadtest

import (
	"cmp"
	"math/bits"
	"slices"
	"time"
)

// maxKept is how many IDs a check keeps, in memory: 24 bytes for each, 150 MB at most.
const maxKept = 6 << 20

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
	// First has the smallest repeated IDs, at most MaxFirst, in growing order.
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
// whole run, in which every ID was compared with all that came.
type idSet struct {
	came  int64
	kept  []keptID // its capacity is all there is
	zeros int      // that a hash has to begin with
}

// keptID is an ID with its Place.
type keptID struct {
	id              int64
	at              time.Duration
	client, request uint32
}

func newIDSet(room int) *idSet { return &idSet{kept: make([]keptID, 0, room)} }

// add keeps the IDs of an answer that are in the sample.
func (s *idSet) add(p Place, ids []int64) {
	s.came += int64(len(ids))
	for _, id := range ids {
		for len(s.kept) == cap(s.kept) && s.in(id) {
			s.zeros++
			s.kept = slices.DeleteFunc(s.kept, func(k keptID) bool { return !s.in(k.id) })
		}
		if s.in(id) {
			s.kept = append(s.kept, keptID{id: id, at: p.At, client: uint32(p.Client), request: uint32(p.Request)})
		}
	}
}

// in tells whether an ID is in the sample.
func (s *idSet) in(id int64) bool {
	// Fibonacci hashing, Knuth, volume 3, 6.4.
	const golden = 0x9E3779B97F4A7C15
	return bits.LeadingZeros64(uint64(id)*golden) >= s.zeros
}

// compare compares the IDs that were kept.
func (s *idSet) compare(key string) UniqueSet {
	u := UniqueSet{Key: key, IDs: s.came, Compared: int64(len(s.kept))}
	slices.SortFunc(s.kept, func(a, b keptID) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.at, b.at)) })
	for from := 0; from < len(s.kept); {
		id, to := s.kept[from].id, from+1
		for to < len(s.kept) && s.kept[to].id == id {
			to++
		}
		same := s.kept[from:to]
		from = to
		if len(same) == 1 {
			continue
		}
		u.Repeated++
		u.Surplus += int64(len(same) - 1)
		if len(u.First) < MaxFirst {
			u.First = append(u.First, Duplicate{ID: id, Times: int64(len(same)), Places: [2]Place{same[0].place(), same[1].place()}})
		}
	}
	return u
}

func (k keptID) place() Place {
	return Place{Client: int(k.client), Request: int64(k.request), At: k.at}
}
