package clock

import (
	"slices"
	"time"
)

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

// Verdict is what the peers say of our clock, taken together. The zero value is
// that of no peer asked.
type Verdict struct {
	// Offset is how far the peers' clocks are ahead of ours; 0 when no peer
	// answered.
	Offset   time.Duration
	Answered int // peers that told their clock
	Asked    int // peers that were asked
}

// Beyond reports whether the peers' clocks are threshold or more away from ours,
// either way. Silence is no disagreement.
func (v Verdict) Beyond(threshold time.Duration) bool {
	return v.Answered > 0 && v.Offset.Abs() >= threshold
}

// Quorum reports whether at least half of those asked answered. Without it no clock is
// refused or outvoted, even if all others agree.
func (v Verdict) Quorum() bool { return 2*v.Answered >= v.Asked }

// Refuses reports whether a start is refused, which takes a Quorum. One answer doesn't tell
// which of the two clocks is wrong: a daemon that resumes, as resumes says, goes on
// then, so that a wrong clock can't keep the other of two daemons from a restart. A new one
// can wait, and is refused.
func (v Verdict) Refuses(threshold time.Duration, resumes bool) bool {
	return v.Quorum() && v.Beyond(threshold) && (v.Answered > 1 || !resumes)
}

// Estimate returns what samples, less those with an Err, say together. An
// Estimator that is neither of the two is taken as Median. It keeps:
//
//  1. The order of samples doesn't matter.
//  2. The estimate lies between the lowest and the highest offset.
//  3. By the median, an estimate beyond a threshold has more than half of the
//     answers beyond it, on the same side. So of two peers, one right and one
//     wrong, the wrong one can't shut a healthy daemon out.
func Estimate(samples []Sample, e Estimator) Verdict {
	offsets := offsetsOf(samples)
	v := Verdict{Asked: len(samples), Answered: len(offsets)}
	switch {
	case v.Answered == 0:
	case e == Mean:
		v.Offset = mean(offsets)
	default:
		v.Offset = median(offsets)
	}
	return v
}

// offsetsOf returns the offsets of the samples that have one.
func offsetsOf(samples []Sample) []time.Duration {
	offsets := make([]time.Duration, 0, len(samples))
	for i := range samples {
		if samples[i].Err == nil {
			offsets = append(offsets, samples[i].Offset)
		}
	}
	return offsets
}

// median returns the median of at least one offset, and orders them. Of an even
// number every value between the two in the middle is a median: the one nearest
// to zero it is, so that more than half lie beyond what it says.
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

// Vote is where our clock stands among the peers'.
type Vote string

// The votes. Programs compare them: GET /api/overview and the metrics have these words.
const (
	Agree     Vote = "agree"     // a majority has our time, or no peer answered
	Undecided Vote = "undecided" // no majority has our time, and none that counts has another
	Outvoted  Vote = "disagree"  // a majority has another time
)

// VoteOf counts the votes of samples, less those with an Err, and ours. It keeps:
//
//  1. Each peer that answered has a vote, and so have we. A majority is more than
//     half of these votes, of which a silent peer has none.
//  2. Agree is a majority, ours included, of clocks less than threshold from ours.
//     Outvoted is a majority of clocks that are all threshold or more from ours, and
//     less than threshold from each other, where at least half of the peers asked
//     answered. Anything else is Undecided, as with one peer, a tie, or peers that are
//     off to either side.
//  3. Where all see the same clocks, fewer than half of them are outvoted: two
//     majorities have a clock in common, so that no clock of one that outvotes another
//     is itself outvoted. Without the last part of Outvoted, clocks that all differ
//     would take every daemon out of service.
//  4. By the median, Agree is never Beyond the same threshold.
func VoteOf(samples []Sample, threshold time.Duration) Vote {
	offsets := offsetsOf(samples)
	slices.Sort(offsets)
	majority := (len(offsets)+1)/2 + 1
	near := 1 // ours
	for i, high := range offsets {
		if high.Abs() < threshold {
			near++
		}
		if i+1 < majority {
			continue
		}
		// The low and high of a group have one sign here: their difference can't overflow.
		low := offsets[i+1-majority]
		if (low >= threshold || high <= -threshold) && high-low < threshold && 2*len(offsets) >= len(samples) {
			return Outvoted
		}
	}
	if near >= majority {
		return Agree
	}
	return Undecided
}
