package clock

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrBadEstimator is returned for a name that no Estimator has.
var ErrBadEstimator = errors.New("clock: unknown estimator")

// Estimator is how the offsets of several peers become one.
type Estimator string

// The estimators.
const (
	// Median is not moved by a minority of wrong peers.
	Median Estimator = "median"
	// Mean is the Leaf article's sum(time)/nodeSize: one peer that is wrong by
	// an hour shuts out every healthy daemon.
	Mean Estimator = "mean"
)

// ParseEstimator returns the Estimator named s: median or mean. ErrBadEstimator.
func ParseEstimator(s string) (Estimator, error) {
	switch e := Estimator(s); e {
	case Median, Mean:
		return e, nil
	}
	return "", fmt.Errorf("%w %q: want %s or %s", ErrBadEstimator, s, Median, Mean)
}

// Verdict is what the peers say of our clock, taken together. The zero value is
// that of nobody asked.
type Verdict struct {
	// Offset is how far the peers' clocks are ahead of ours; 0 when nobody
	// answered.
	Offset   time.Duration
	Answered int // peers that told their clock
	Asked    int // peers that were asked
}

// Beyond tells whether the peers' clocks are threshold or more away from ours,
// either way. Silence is no disagreement.
func (v Verdict) Beyond(threshold time.Duration) bool {
	return v.Answered > 0 && v.Offset.Abs() >= threshold
}

// Estimate returns what samples, less those with an Err, say together. An
// Estimator that is neither of the two is taken as Median. It keeps:
//
//	clock.E1  The order of samples doesn't matter.
//	clock.E2  The estimate lies between the lowest and the highest offset.
//	clock.E3  By the median, an estimate beyond a threshold has more than half of the
//	    answers beyond it, on the same side. So of two peers, one right and one
//	    wrong, the wrong one can't shut a healthy daemon out.
func Estimate(samples []Sample, e Estimator) Verdict {
	v := Verdict{Asked: len(samples)}
	offsets := make([]time.Duration, 0, len(samples))
	for i := range samples {
		if samples[i].Err == nil {
			offsets = append(offsets, samples[i].Offset)
		}
	}
	v.Answered = len(offsets)
	switch {
	case v.Answered == 0:
	case e == Mean:
		v.Offset = mean(offsets)
	default:
		v.Offset = median(offsets)
	}
	return v
}

// median returns the median of at least one offset, and orders them. Of an even
// number every value between the two in the middle is a median: the one nearest
// to zero it is, for clock.E3.
func median(offsets []time.Duration) time.Duration {
	slices.Sort(offsets)
	low, high := offsets[(len(offsets)-1)/2], offsets[len(offsets)/2]
	return max(low, min(0, high))
}

// mean returns the mean of at least one offset, in whole nanoseconds.
// Offsets can be centuries, so their sum may not fit: each is divided first, and
// what the divisions leave is added up apart.
func mean(offsets []time.Duration) time.Duration {
	n := time.Duration(len(offsets))
	var whole, rest time.Duration
	for _, o := range offsets {
		whole += o / n
		rest += o % n
	}
	return whole + rest/n
}

// Majority tells whether more than half of the peers that answered are threshold
// or more away from our clock, to whichever side. It is false when nobody
// answered.
func Majority(samples []Sample, threshold time.Duration) bool {
	answered, beyond := 0, 0
	for i := range samples {
		if samples[i].Err != nil {
			continue
		}
		answered++
		if samples[i].Offset.Abs() >= threshold {
			beyond++
		}
	}
	return 2*beyond > answered
}
