package views

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/leafd/leafd/segment"
)

// pickTags returns the first tags by compareTags of those with part in their names. It
// sorts no more than it returns.
func pickTags(all iter.Seq[segment.Status], part string) *SegmentsView {
	v := &SegmentsView{}
	part = strings.ToLower(part)
	top := make([]segment.Status, 0, overviewTags+1)
	for t := range all {
		v.Total++
		v.Rate += t.Rate
		if t.Failing != "" {
			v.Failing++
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
	v.List = top
	return v
}

// compareTags orders failing tags before others, busy ones before idle
// ones, and else by name.
func compareTags(a, b segment.Status) int {
	return cmp.Or(cmp.Compare(calm(a), calm(b)), cmp.Compare(b.Rate, a.Rate), strings.Compare(a.Tag, b.Tag))
}

// calm is 0 for a failing tag, else 1.
func calm(t segment.Status) int {
	if t.Failing != "" {
		return 0
	}
	return 1
}
