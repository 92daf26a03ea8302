package loadtest

import (
	"cmp"
	"slices"
	"time"
)

// What a check keeps of the IDs, in memory: 24 bytes each, 200 MB at most.
const (
	maxKept  = 8 << 20
	bits     = 12 // of the hash that names a bucket
	chunkIDs = 32
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
	// First has the smallest repeated IDs, at most MaxFirst, in growing order.
	First []Duplicate `json:"first,omitempty"`
}

// Duplicate is an ID that came more than once.
type Duplicate struct {
	ID     int64    `json:"id,string"`
	Times  int64    `json:"times"`
	Places [2]Place `json:"places"` // of its first two appearances
}

// idSet finds the IDs that came more than once, in bounded memory. A hash of an ID says
// which bucket it belongs to, so that all its appearances are in one. When there is no
// more room a bucket is given up, with all that belongs there later: what is left is a
// sample over the whole run, in which every ID was compared with all that came.
type idSet struct {
	came   int64
	kept   [][]*chunk // by bucket; those given up are cut off
	room   int        // chunks that may still be made
	unused []*chunk
}

type chunk struct {
	n   int
	ids [chunkIDs]keptID
}

// keptID is an ID with its Place.
type keptID struct {
	id              int64
	at              time.Duration
	client, request uint32
}

func newIDSet(room int) *idSet {
	return &idSet{kept: make([][]*chunk, 1<<bits), room: room / chunkIDs}
}

// add keeps the IDs of an answer.
func (s *idSet) add(p Place, ids []int64) {
	s.came += int64(len(ids))
	for _, id := range ids {
		const golden = 0x9E3779B97F4A7C15 // Fibonacci hashing, Knuth, volume 3, 6.4
		if bucket := int(uint64(id) * golden >> (64 - bits)); bucket < len(s.kept) {
			s.keep(bucket, keptID{id: id, at: p.At, client: uint32(p.Client), request: uint32(p.Request)})
		}
	}
}

func (s *idSet) keep(bucket int, k keptID) {
	list := s.kept[bucket]
	if len(list) == 0 || list[len(list)-1].n == chunkIDs {
		fresh := s.newChunk()
		if bucket >= len(s.kept) { // it was given up for that
			return
		}
		list = append(list, fresh)
		s.kept[bucket] = list
	}
	last := list[len(list)-1]
	last.ids[last.n] = k
	last.n++
}

// newChunk returns an empty chunk, for which it gives up buckets where it must.
func (s *idSet) newChunk() *chunk {
	if s.room > 0 {
		s.room--
		return &chunk{}
	}
	for len(s.unused) == 0 {
		last := len(s.kept) - 1
		s.unused = s.kept[last]
		s.kept = s.kept[:last]
	}
	last := len(s.unused) - 1
	c := s.unused[last]
	s.unused = s.unused[:last]
	c.n = 0
	return c
}

// compare compares the IDs that were kept.
func (s *idSet) compare(key string) UniqueSet {
	u := UniqueSet{Key: key, IDs: s.came}
	var ids []keptID
	for _, list := range s.kept {
		ids = ids[:0]
		for _, c := range list {
			ids = append(ids, c.ids[:c.n]...)
		}
		slices.SortFunc(ids, func(a, b keptID) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.at, b.at)) })
		u.Compared += int64(len(ids))
		u.count(ids)
	}
	return u
}

// count adds the repetitions among sorted IDs, which are all appearances of theirs.
func (u *UniqueSet) count(ids []keptID) {
	var next int
	for first := 0; first < len(ids); first = next {
		for next = first + 1; next < len(ids) && ids[next].id == ids[first].id; next++ {
		}
		if next == first+1 {
			continue
		}
		u.Repeated++
		u.Surplus += int64(next - first - 1)
		u.First = append(u.First, Duplicate{
			ID: ids[first].id, Times: int64(next - first), Places: [2]Place{ids[first].place(), ids[first+1].place()},
		})
		if len(u.First) > 2*MaxFirst {
			u.shorten()
		}
	}
	u.shorten()
}

// shorten leaves the smallest of the repeated IDs.
func (u *UniqueSet) shorten() {
	slices.SortFunc(u.First, func(a, b Duplicate) int { return cmp.Compare(a.ID, b.ID) })
	u.First = u.First[:min(len(u.First), MaxFirst)]
}

func (k keptID) place() Place {
	return Place{Client: int(k.client), Request: int64(k.request), At: k.at}
}
