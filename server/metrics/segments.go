package metrics

import (
	"cmp"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leafd/leafd/segment"
)

// MaxTags is how many tags have series of how near they are to running dry.
const MaxTags = 50

// Rest is the label of all tags without a series of segment_ids_issued_total. A tag with this
// very name is always one of them, so that the label is unambiguous.
const Rest = "_other"

// showable reports whether a tag may have series of its own.
func showable(tag string) bool {
	return tag != Rest && len(tag) <= segment.MaxTagBytes && utf8.ValidString(tag)
}

// collectSegments makes one pass over the tags in memory.
func (m *Metrics) collectSegments(p page, s Segments) {
	worst := best[segment.Status]{n: MaxTags, compare: compareDanger}
	var failing, empty int
	m.issued.mu.Lock()
	defer m.issued.mu.Unlock()
	for st := range s.Used {
		if st.Failures > 0 {
			failing++
		}
		if remaining(st) == 0 {
			empty++
		}
		m.issued.see(st.Tag, st.Issued)
		if inDanger(st) && showable(st.Tag) {
			worst.offer(st)
		}
	}
	m.issued.each(func(tag string, ids int64) { p.put(descIssued, float64(ids), tag) })
	p.put(descTags, float64(s.Len()))
	p.put(descTagsFailing, float64(failing))
	p.put(descTagsEmpty, float64(empty))
	if g := s.Guard(); g.On {
		p.flag(descGuarded, g.Guarded)
		p.flag(descBehind, g.Behind)
		p.put(descUnguarded, float64(g.Unguarded))
		p.put(descConflicts, float64(g.Conflicts))
		p.put(descGivenUp, float64(g.GivenUp))
	}
	for _, st := range worst.all {
		p.put(descRemaining, remaining(st), st.Tag)
		p.put(descStep, float64(st.Step), st.Tag)
		p.put(descFailing, float64(st.Failures), st.Tag)
	}
}

// inDanger is false for tags that are unused, and for idle ones with fetches that succeed.
func inDanger(st segment.Status) bool { return st.Failures > 0 || st.Remaining != nil }

// compareDanger orders tags with failing fetches first, then those that last the shortest:
// a busy tag with a small step is always short of IDs, which is normal.
func compareDanger(a, b segment.Status) int {
	return cmp.Or(
		-cmp.Compare(min(a.Failures, 1), min(b.Failures, 1)),
		cmp.Compare(remaining(a), remaining(b)),
		strings.Compare(a.Tag, b.Tag),
	)
}

// remaining returns how many seconds the IDs in memory of a tag in use last.
func remaining(st segment.Status) float64 {
	if st.Remaining == nil {
		return math.Inf(1)
	}
	return *st.Remaining
}

// fetches counts the attempts to fetch a range.
type fetches struct {
	took   prometheus.Histogram
	failed *prometheus.CounterVec
}

// reasonOther is the value of the label "reason" beside the names of segment.Reasons.
const reasonOther = "other"

func newFetches() fetches {
	f := fetches{
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "leafd_segment_fetch_duration_seconds",
			Help:    "Time that an attempt to fetch a range took, failed or not.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5},
		}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "leafd_segment_fetch_failures_total",
			Help: "Attempts to fetch a range that failed.",
		}, []string{"reason"}),
	}
	f.failed.WithLabelValues(reasonOther)
	for _, reason := range segment.Reasons() {
		f.failed.WithLabelValues(reason.Name)
	}
	return f
}

// Fetched is segment.Config's: it counts an attempt to fetch a range.
func (m *Metrics) Fetched(_ string, took time.Duration, err error) {
	m.fetches.took.Observe(took.Seconds())
	if err != nil {
		m.fetches.failed.WithLabelValues(segment.ReasonOf(err, reasonOther)).Inc()
	}
}
