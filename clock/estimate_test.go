package clock_test

import (
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
)

func TestParseEstimator(t *testing.T) {
	for _, want := range []clock.Estimator{clock.Median, clock.Mean} {
		got, err := clock.ParseEstimator(string(want))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, bad := range []string{"", "Median", "median ", "average"} {
		_, err := clock.ParseEstimator(bad)
		require.ErrorIs(t, err, clock.ErrBadEstimator)
		require.ErrorContains(t, err, "median")
	}
}

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
		majority     bool // beyond 5 s
	}{
		{"nobody", nil, 0, 0, false},
		{"one that agrees", []time.Duration{s}, s, s, false},
		{"one ahead", []time.Duration{h}, h, h, true},
		{"one behind", []time.Duration{-h}, -h, -h, true},
		{"two ahead: the nearer one", []time.Duration{h, 6 * s}, 6 * s, (h + 6*s) / 2, true},
		{"two behind: the nearer one", []time.Duration{-h, -6 * s}, -6 * s, (-h - 6*s) / 2, true},
		{"one right, one wrong", []time.Duration{s, h}, s, (h + s) / 2, false},
		{"one right, one wrong behind", []time.Duration{-h, s}, 0, (s - h) / 2, false},
		{"two wrong, on either side", []time.Duration{-h, h}, 0, 0, true},
		{"three, one wrong", []time.Duration{h, -s, s}, s, h / 3, false},
		{"three, two wrong", []time.Duration{h, h, 0}, h, 2 * h / 3, true},
		{"four, one wrong", []time.Duration{0, s, -h, s}, 0, (2*s - h) / 4, false},
		{"four, two wrong", []time.Duration{s, h, 2 * s, h}, 2 * s, (3*s + 2*h) / 4, false},
		{"four, three wrong", []time.Duration{h, h, 2 * s, h}, h, (2*s + 3*h) / 4, true},
		{"four, all by little", []time.Duration{3, 1, 4, 2}, 2, 2, false},
		{"as far as it goes", []time.Duration{math.MaxInt64, math.MaxInt64, math.MaxInt64}, math.MaxInt64, math.MaxInt64, true},
		{"as far back as it goes", []time.Duration{math.MinInt64, math.MinInt64, math.MinInt64}, math.MinInt64, math.MinInt64, true},
		{"exactly the threshold", []time.Duration{5 * s}, 5 * s, 5 * s, true},
		{"exactly the threshold behind", []time.Duration{-5 * s}, -5 * s, -5 * s, true},
		{"just below", []time.Duration{5*s - 1}, 5*s - 1, 5*s - 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			list := samples(test.offsets...)
			// Those that did not answer count nowhere but in Asked.
			list = append(list, clock.Sample{Err: errors.New("silent"), Offset: -77 * h})
			n := len(test.offsets)
			require.Equal(t, clock.Verdict{Offset: test.median, Answered: n, Asked: n + 1}, clock.Estimate(list, clock.Median))
			require.Equal(t, clock.Verdict{Offset: test.mean, Answered: n, Asked: n + 1}, clock.Estimate(list, clock.Mean))
			require.Equal(t, clock.Estimate(list, clock.Median), clock.Estimate(list, ""), "the safer one stands in for none")
			require.Equal(t, test.majority, clock.Majority(list, 5*s))
		})
	}
}

func TestEstimateLeavesItsArgumentAlone(t *testing.T) {
	list := samples(3, 1, 2)
	clock.Estimate(list, clock.Median)
	clock.Estimate(list, clock.Mean)
	require.Equal(t, samples(3, 1, 2), list)
}

func TestBeyond(t *testing.T) {
	const threshold = 5 * time.Second
	for _, test := range []struct {
		name    string
		verdict clock.Verdict
		want    bool
	}{
		{"nobody asked", clock.Verdict{}, false},
		{"nobody answered", clock.Verdict{Asked: 3}, false},
		{"nobody answered, whatever stands there", clock.Verdict{Asked: 3, Offset: time.Hour}, false},
		{"below", clock.Verdict{Asked: 1, Answered: 1, Offset: threshold - 1}, false},
		{"below, behind", clock.Verdict{Asked: 1, Answered: 1, Offset: -threshold + 1}, false},
		{"at it", clock.Verdict{Asked: 1, Answered: 1, Offset: threshold}, true},
		{"at it, behind", clock.Verdict{Asked: 1, Answered: 1, Offset: -threshold}, true},
		{"the furthest behind", clock.Verdict{Asked: 1, Answered: 1, Offset: math.MinInt64}, true},
	} {
		t.Run(test.name, func(t *testing.T) { require.Equal(t, test.want, test.verdict.Beyond(threshold)) })
	}
}

// checkEstimate holds clock.E1 to clock.E3 against offsets, and the mean against exact
// arithmetic.
func checkEstimate(t *testing.T, offsets []time.Duration) {
	t.Helper()
	list := samples(offsets...)
	median, mean := clock.Estimate(list, clock.Median), clock.Estimate(list, clock.Mean)

	// clock.E1: another order, with silent peers in between.
	shuffled := append(slices.Clone(list), clock.Sample{Err: errors.New("silent")})
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	require.Equal(t, median.Offset, clock.Estimate(shuffled, clock.Median).Offset)
	require.Equal(t, mean.Offset, clock.Estimate(shuffled, clock.Mean).Offset)
	if len(offsets) == 0 {
		require.Zero(t, median)
		require.Zero(t, mean)
		return
	}

	// clock.E2, and that the median is one: no more than half on either side of it.
	sum := new(big.Int)
	below, above := 0, 0
	for _, o := range offsets {
		sum.Add(sum, big.NewInt(int64(o)))
		if o < median.Offset {
			below++
		} else if o > median.Offset {
			above++
		}
	}
	for _, v := range []clock.Verdict{median, mean} {
		require.GreaterOrEqual(t, v.Offset, slices.Min(offsets))
		require.LessOrEqual(t, v.Offset, slices.Max(offsets))
	}
	require.LessOrEqual(t, 2*below, len(offsets))
	require.LessOrEqual(t, 2*above, len(offsets))
	off := new(big.Int).Sub(new(big.Int).Mul(big.NewInt(int64(mean.Offset)), big.NewInt(int64(len(offsets)))), sum)
	require.Negative(t, off.CmpAbs(big.NewInt(int64(len(offsets)))), "the mean is exact to a nanosecond")

	// clock.E3.
	for _, threshold := range []time.Duration{1, 5 * time.Second, time.Hour, median.Offset.Abs()} {
		if threshold <= 0 || !median.Beyond(threshold) {
			continue
		}
		require.True(t, clock.Majority(list, threshold))
		same := 0
		for _, o := range offsets {
			if o.Abs() >= threshold && (o > 0) == (median.Offset > 0) {
				same++
			}
		}
		require.Greater(t, 2*same, len(offsets))
	}
}

func TestEstimateProperties(t *testing.T) {
	for range 5_000 {
		offsets := make([]time.Duration, rand.IntN(12))
		for i := range offsets {
			switch rand.IntN(4) {
			case 0:
				offsets[i] = time.Duration(rand.Uint64()) // any, the furthest too
			case 1:
				offsets[i] = time.Duration(rand.IntN(5) - 2) // many equal ones
			default:
				offsets[i] = time.Duration(rand.Int64N(int64(20*time.Second))) - 10*time.Second
			}
		}
		checkEstimate(t, offsets)
	}
}

func FuzzEstimate(f *testing.F) {
	f.Add([]byte{})
	f.Add(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, math.MaxUint64), 1<<63))
	f.Fuzz(func(t *testing.T, b []byte) {
		var offsets []time.Duration
		for len(b) >= 8 {
			offsets = append(offsets, time.Duration(binary.LittleEndian.Uint64(b)))
			b = b[8:]
		}
		checkEstimate(t, offsets)
	})
}
