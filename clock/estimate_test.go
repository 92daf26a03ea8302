package clock_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
)

// samples makes one of each offset.
func samples(offsets ...time.Duration) []clock.Sample {
	list := make([]clock.Sample, len(offsets))
	for i, o := range offsets {
		list[i] = clock.Sample{Offset: o}
	}
	return list
}

func TestEstimate(t *testing.T) {
	const h, s = time.Hour, time.Second
	for _, test := range []struct {
		name         string
		offsets      []time.Duration
		median, mean time.Duration
	}{
		{"none", nil, 0, 0},
		{"one ahead", []time.Duration{h}, h, h},
		{"two ahead: the nearer one", []time.Duration{h, 6 * s}, 6 * s, (h + 6*s) / 2},
		{"one right, one wrong", []time.Duration{s, h}, s, (h + s) / 2},
		{"two wrong, on either side", []time.Duration{-h, h}, 0, 0},
		{"three, one wrong", []time.Duration{h, -s, s}, s, h / 3},
		{"four, one wrong", []time.Duration{0, s, -h, s}, 0, (2*s - h) / 4},
		{"four, all by little", []time.Duration{3, 1, 4, 2}, 2, 2},
		{"as far as it goes", []time.Duration{math.MaxInt64, math.MaxInt64, math.MaxInt64}, math.MaxInt64, math.MaxInt64},
		{"as far back as it goes", []time.Duration{math.MinInt64, math.MinInt64, math.MinInt64}, math.MinInt64, math.MinInt64},
	} {
		t.Run(test.name, func(t *testing.T) {
			list := samples(test.offsets...)
			// Those that did not answer count nowhere but in Asked.
			list = append(list, clock.Sample{Err: errors.New("silent"), Offset: -77 * h})
			n := len(test.offsets)
			require.Equal(t, clock.Verdict{Offset: test.median, Answered: n, Asked: n + 1}, clock.Estimate(list, clock.Median))
			require.Equal(t, clock.Verdict{Offset: test.mean, Answered: n, Asked: n + 1}, clock.Estimate(list, clock.Mean))
			require.Equal(t, clock.Estimate(list, clock.Median), clock.Estimate(list, ""), "the safer one stands in for none")
		})
	}
}

// Of two daemons the one that resumes starts, whichever clock is wrong.
func TestRefuses(t *testing.T) {
	const threshold = 5 * time.Second
	for _, test := range []struct {
		name          string
		offsets       []time.Duration
		new, resuming bool
	}{
		{"silence", nil, false, false},
		{"one that agrees", []time.Duration{threshold - 1}, false, false},
		{"one that does not", []time.Duration{threshold}, true, false},
		{"one that does not, behind", []time.Duration{-threshold}, true, false},
		{"two of two", []time.Duration{threshold, time.Hour}, true, true},
		{"one of two", []time.Duration{0, time.Hour}, false, false},
		{"two of three", []time.Duration{threshold, 0, time.Hour}, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := len(test.offsets)
			for silent := range 2*n + 2 {
				v := clock.Estimate(append(samples(test.offsets...), slices.Repeat([]clock.Sample{{Err: errors.New("silent")}}, silent)...), clock.Median)
				require.Equal(t, test.new && silent <= n, v.Refuses(threshold, false), "%d silent", silent)
				require.Equal(t, test.resuming && silent <= n, v.Refuses(threshold, true), "%d silent", silent)
			}
		})
	}
}

func TestVoteOf(t *testing.T) {
	const s, threshold = time.Second, 5 * time.Second
	many := func(n int, offset time.Duration, more ...time.Duration) []time.Duration {
		return append(slices.Repeat([]time.Duration{offset}, n), more...)
	}
	for _, test := range []struct {
		name    string
		offsets []time.Duration
		want    clock.Vote
	}{
		{"none", nil, clock.Agree},
		{"one just below the threshold", many(1, threshold-1), clock.Agree},
		{"one at the threshold: which is wrong?", many(1, threshold), clock.Undecided},
		{"one as far back as it goes", many(1, math.MinInt64), clock.Undecided},
		{"we are the wrong one of three", many(2, 8*s), clock.Outvoted},
		{"the wrong one of three, the others just within the threshold", many(1, 8*s, 13*s-1), clock.Outvoted},
		{"all three differ, on one side", many(1, 8*s, 13*s), clock.Undecided},
		{"at the threshold on either side", many(1, -threshold, threshold), clock.Undecided},
		{"two as far back as it goes", many(2, math.MinInt64), clock.Outvoted},
		{"a chain: the middle one has the time of both", many(1, 4*s, 8*s), clock.Agree},
		{"four, a tie", many(2, 8*s, 0), clock.Undecided},
		{"four, a majority that one of us links to it", many(2, 8*s, 4*s), clock.Undecided},
		{"a thousand peers, half of them wrong", many(500, 8*s, many(500, s)...), clock.Agree},
		{"a thousand peers, one more wrong: 501 of 1001 votes", many(501, 8*s, many(499, s)...), clock.Outvoted},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := len(test.offsets)
			for _, silent := range []int{0, 1, n - 1, n, n + 1, n + 2, 3 * n} { // their votes count nowhere
				list := samples(test.offsets...)
				for range silent {
					list = append(list, clock.Sample{Err: errors.New("silent"), Offset: 8 * s})
				}
				rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
				want := test.want
				if want == clock.Outvoted && silent > n { // fewer than half answered
					want = clock.Undecided
				}
				require.Equal(t, want, clock.VoteOf(list, threshold), "%d silent", silent)
			}
		})
	}
}

// TestVoteProperties holds VoteOf against every group of clocks that there is, and
// What holds of votes, for all daemons of a cluster.
func TestVoteProperties(t *testing.T) {
	const threshold = 5
	for range 3000 {
		clocks := make([]time.Duration, 1+rand.IntN(8))
		for i := range clocks {
			clocks[i] = time.Duration(rand.IntN(24))
		}
		outvoted := 0
		for i := range clocks {
			var peers []time.Duration // as daemon i sees them
			for j := range clocks {
				if j != i {
					peers = append(peers, clocks[j]-clocks[i])
				}
			}
			want := voteByGroups(peers, threshold)
			require.Equal(t, want, clock.VoteOf(samples(peers...), threshold), "daemon %d of %v", i, clocks)
			if want == clock.Outvoted {
				outvoted++
			}
			if want == clock.Agree {
				require.False(t, clock.Estimate(samples(peers...), clock.Median).Beyond(threshold), "daemon %d of %v", i, clocks)
			}
		}
		require.Less(t, 2*outvoted, len(clocks), "%v", clocks)
	}
}

// voteByGroups is Agree and Outvoted, word by word.
func voteByGroups(peers []time.Duration, threshold time.Duration) clock.Vote {
	near := 1
	for _, o := range peers {
		if o.Abs() < threshold {
			near++
		}
	}
	if 2*near > len(peers)+1 {
		return clock.Agree
	}
	for group := range 1 << len(peers) {
		var members []time.Duration
		for i, o := range peers {
			if group>>i&1 == 1 && o.Abs() >= threshold {
				members = append(members, o)
			}
		}
		if 2*len(members) > len(peers)+1 && slices.Max(members)-slices.Min(members) < threshold {
			return clock.Outvoted
		}
	}
	return clock.Undecided
}
