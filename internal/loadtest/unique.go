package loadtest

import "slices"

// maxKept is how many IDs a check keeps in all, in memory: 256 MB at most.
const maxKept = 32 << 20

// MaxFirst is how many repeated IDs a UniqueSet shows.
const MaxFirst = 10

// UniqueSet is the verdict on IDs that must differ.
type UniqueSet struct {
	Key string `json:"key,omitempty"` // of Mode Segment: the tag
	// IDs is how many came, and Compared how many of them, the first, were compared with each other: all, where they
	// fit into memory.
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
	ID    int64 `json:"id,string"`
	Times int   `json:"times"`
}

// idSet finds the IDs that came more than once, among the first that there is room for.
type idSet struct {
	came int64
	kept []int64
	room int
}

func (s *idSet) add(ids []int64) {
	s.came += int64(len(ids))
	s.kept = append(s.kept, ids[:min(len(ids), s.room-len(s.kept))]...)
}

// compare compares the IDs that were kept.
func (s *idSet) compare(key string) UniqueSet {
	u := UniqueSet{Key: key, IDs: s.came, Compared: int64(len(s.kept))}
	slices.Sort(s.kept)
	for from, to := 0, 0; from < len(s.kept); from = to {
		for to < len(s.kept) && s.kept[to] == s.kept[from] {
			to++
		}
		if to-from == 1 {
			continue
		}
		u.Repeated++
		u.Surplus += int64(to - from - 1)
		if len(u.First) < MaxFirst {
			u.First = append(u.First, Duplicate{s.kept[from], to - from})
		}
	}
	return u
}
