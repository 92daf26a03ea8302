package server

import (
	"cmp"
	"slices"
	"strings"
)

// pickTags returns those of the tags whose names have part that need looking at
// most. It keeps no more than it shows in order.
func pickTags(all []SegmentStatus, part string) *SegmentsView {
	v := &SegmentsView{Total: len(all)}
	part = strings.ToLower(part)
	top := make([]*SegmentStatus, 0, overviewTags+1)
	for i := range all {
		t := &all[i]
		v.Rate += t.Rate
		if t.Failing != "" {
			v.Failing++
		}
		if t.Stopped {
			v.Stopped++
		}
		if part != "" && !strings.Contains(strings.ToLower(t.Tag), part) {
			continue
		}
		v.Matched++
		if len(top) == overviewTags && compareTags(t, top[overviewTags-1]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, t, compareTags)
		top = slices.Insert(top, at, t)
		top = top[:min(len(top), overviewTags)]
	}
	v.LeftOut = v.Matched - len(top)
	v.List = make([]SegmentStatus, len(top))
	for i, t := range top {
		v.List[i] = *t
	}
	return v
}

// compareTags orders failing and stopped tags before others, busy ones before idle
// ones, and else by name.
func compareTags(a, b *SegmentStatus) int {
	return cmp.Or(cmp.Compare(calm(a), calm(b)), cmp.Compare(b.Rate, a.Rate), strings.Compare(a.Tag, b.Tag))
}

// calm is 1 for a tag that nothing is the matter with, else 0.
func calm(t *SegmentStatus) int {
	if t.Failing != "" || t.Stopped {
		return 0
	}
	return 1
}
