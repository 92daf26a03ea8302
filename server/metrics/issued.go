package metrics

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// rankEvery is how often busier tags may take the place of shown ones.
	rankEvery = time.Minute
	// A tag replaces a shown one only when its rate is busier times as high, and at
	// least leastRate, in IDs a second: tags of similar rates would otherwise change
	// places forever, and each change is a new series to Prometheus.
	busier    = 2
	leastRate = 1
)

// issued is the source of segment_ids_issued_total: MaxTags tags have their own series,
// the rest share one. Which tags these are changes, but no counter may go backwards. It
// keeps:
//
//	metrics.T1  A shown tag's series has the IDs issued since it is shown, or all of
//	    them if none was ever counted in the rest. While the tag is shown, its series
//	    never falls.
//	metrics.T2  The series of the rest never falls. It keeps what was counted there
//	    when a tag becomes shown, and gets the series of a tag that is no longer shown
//	    or was removed.
//	metrics.T3  The sum of all series is what all tags have issued up to the scrape,
//	    including tags that were removed.
//	metrics.T4  There are at most MaxTags series and that of the rest.
//	metrics.T5  A tag that is not showable is always in the rest.
//
// metrics.T3 is kept by counting each tag's growth exactly once, in one of the series.
type issued struct {
	mu    sync.Mutex
	seen  map[string]int64   // mu protects; IDs of each tag ever used that are counted in some series
	shown map[string]*series // mu protects
	rest  int64              // mu protects

	pass   uint64        // mu protects; number of the scrape
	now    time.Duration // mu protects; monotonic, of the scrape
	ranked time.Duration // mu protects; when tags last took others' places
	hidden best[rated]   // mu protects; the busiest tags that aren't shown
}

// series is the series of a tag.
type series struct {
	ids  int64
	rate float64
	pass uint64 // the last scrape that saw the tag
}

// rated is a tag with its rate.
type rated struct {
	name string
	rate float64
}

func newIssued() *issued {
	return &issued{seen: map[string]int64{}, shown: map[string]*series{}}
}

// begin begins a scrape, which end ends. A concurrent one waits.
func (i *issued) begin(now time.Duration) {
	i.mu.Lock()
	i.pass++
	i.now = now
	i.hidden = best[rated]{n: MaxTags, compare: func(a, b rated) int {
		return cmp.Or(cmp.Compare(b.rate, a.rate), strings.Compare(a.name, b.name))
	}}
}

// see records that tag has issued total IDs so far.
func (i *issued) see(tag string, total int64, rate float64) {
	before, known := i.seen[tag]
	grown := max(0, total-before)
	if grown > 0 || !known {
		i.seen[tag] = max(total, before)
	}
	s := i.shown[tag]
	if s == nil && !known && len(i.shown) < MaxTags && showable(tag) {
		s = &series{}
		i.shown[tag] = s
	}
	if s != nil {
		s.ids += grown
		s.rate, s.pass = rate, i.pass
		return
	}
	i.rest += grown
	if showable(tag) {
		i.hidden.offer(rated{tag, rate})
	}
}

// end calls put with each series, that of the rest last.
func (i *issued) end(put func(tag string, ids int64)) {
	defer i.mu.Unlock()
	for tag, s := range i.shown {
		if s.pass != i.pass {
			i.hide(tag)
		}
	}
	i.rank()
	for tag, s := range i.shown {
		put(tag, s.ids)
	}
	put(Rest, i.rest)
}

// hide moves a tag to the rest (metrics.T2).
func (i *issued) hide(tag string) {
	i.rest += i.shown[tag].ids
	delete(i.shown, tag)
}

// rank shows hidden tags where there is room and, each rankEvery, in place of shown ones
// that are much less busy.
func (i *issued) rank() {
	due := i.now-i.ranked >= rankEvery
	var idlest []rated
	if due {
		i.ranked = i.now
		for tag, s := range i.shown {
			idlest = append(idlest, rated{tag, s.rate})
		}
		slices.SortFunc(idlest, func(a, b rated) int { return cmp.Or(cmp.Compare(a.rate, b.rate), strings.Compare(a.name, b.name)) })
	}
	for _, tag := range i.hidden.all {
		switch {
		case len(i.shown) < MaxTags:
		case len(idlest) > 0 && tag.rate >= leastRate && tag.rate > busier*idlest[0].rate:
			i.hide(idlest[0].name)
			idlest = idlest[1:]
		default:
			return
		}
		i.shown[tag.name] = &series{rate: tag.rate, pass: i.pass} // metrics.T1: from here on
	}
}
