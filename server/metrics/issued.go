package metrics

import "sync"

// MaxIssued is how many tags have a series of segment_ids_issued_total.
const MaxIssued = 500

// issued is the source of segment_ids_issued_total: the first MaxIssued tags that are used have a
// series each, and all others share one. It keeps:
//
//  1. A tag's series is its own, or that of the rest, for the life of the process, so that no series falls: a
//     tag without a row any more keeps it, at what it had issued.
//  2. The sum of all series is what all tags have issued up to the scrape,
//     including tags that were removed.
//  3. There are at most MaxIssued series and that of the rest.
//  4. A tag that is not showable is always in the rest.
type issued struct {
	mu    sync.Mutex       // held for a whole scrape
	shown map[string]int64 // mu protects; IDs of each tag with a series
	rest  map[string]int64 // mu protects; of each of the others
}

func newIssued() *issued { return &issued{shown: map[string]int64{}, rest: map[string]int64{}} }

// see records that tag has issued total IDs so far.
func (i *issued) see(tag string, total int64) {
	_, counted := i.rest[tag]
	_, shown := i.shown[tag]
	in := i.rest
	if shown || !counted && len(i.shown) < MaxIssued && showable(tag) {
		in = i.shown
	}
	in[tag] = max(in[tag], total)
}

// each calls put with each series, that of the rest last.
func (i *issued) each(put func(tag string, ids int64)) {
	for tag, ids := range i.shown {
		put(tag, ids)
	}
	rest := int64(0)
	for _, ids := range i.rest {
		rest += ids
	}
	put(Rest, rest)
}
