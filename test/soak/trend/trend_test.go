package trend

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const samples = 180 // half an hour, every ten seconds

// series is f of the share of its length that has passed, 0 to 1.
func series(n int, f func(i int, x float64) float64) []Point {
	points := make([]Point, n)
	for i := range points {
		points[i] = Point{At: time.Duration(i) * 10 * time.Second, Value: f(i, float64(i)/float64(n-1))}
	}
	return points
}

// memory allows 5 % of some 40 MB: 2 of them.
func memory() Tolerance { return Tolerance{Share: 0.05, Least: 2} }

func TestJudge(t *testing.T) {
	for name, tc := range map[string]struct {
		f    func(rng *rand.Rand, i int, x float64) float64
		flat bool
	}{
		"constant":          {func(*rand.Rand, int, float64) float64 { return 40 }, true},
		"all zero":          {func(*rand.Rand, int, float64) float64 { return 0 }, true},
		"noise":             {func(rng *rand.Rand, _ int, _ float64) float64 { return 40 + rng.NormFloat64() }, true},
		"much noise":        {func(rng *rand.Rand, _ int, _ float64) float64 { return 40 + 8*rng.NormFloat64() }, true},
		"saw teeth":         {func(rng *rand.Rand, i int, _ float64) float64 { return 40 + float64((i*7+rng.IntN(3))%23) }, true},
		"slow saw teeth":    {func(_ *rand.Rand, i int, _ float64) float64 { return 40 + float64(i%18)/2 }, true},
		"falls":             {func(rng *rand.Rand, _ int, x float64) float64 { return 60 - 20*x + rng.NormFloat64() }, true},
		"single peaks":      {func(rng *rand.Rand, i int, _ float64) float64 { return 40 + 200*float64(i%19/18) + rng.NormFloat64() }, true},
		"a peak at the end": {func(_ *rand.Rand, i int, _ float64) float64 { return 40 + 500*float64(i/(samples-5)) }, true},
		"within tolerance":  {func(rng *rand.Rand, _ int, x float64) float64 { return 40 + 1.2*x + 0.2*rng.NormFloat64() }, true},
		"step within":       {func(_ *rand.Rand, _ int, x float64) float64 { return 40 + 1.5*math.Round(x) }, true},
		"leak":              {func(_ *rand.Rand, _ int, x float64) float64 { return 40 + 3*x }, false},
		"leak in noise":     {func(rng *rand.Rand, _ int, x float64) float64 { return 40 + 5*x + 2*rng.NormFloat64() }, false},
		"leak in saw teeth": {func(rng *rand.Rand, i int, x float64) float64 { return 40 + 8*x + float64((i*7+rng.IntN(3))%23)/4 }, false},
		"leak under peaks": {func(rng *rand.Rand, i int, x float64) float64 {
			return 40 + 4*x + 200*float64(i%19/18) + 0.5*rng.NormFloat64()
		}, false},
		"leak from half-way": {func(rng *rand.Rand, _ int, x float64) float64 { return 40 + 10*max(0, x-0.5) + 0.5*rng.NormFloat64() }, false},
		"leak at the end":    {func(rng *rand.Rand, _ int, x float64) float64 { return 40 + 60*max(0, x-0.8) + 0.5*rng.NormFloat64() }, false},
		"a step":             {func(rng *rand.Rand, _ int, x float64) float64 { return 40 + 5*math.Round(x) + 0.5*rng.NormFloat64() }, false},
		"a step near the end": {func(rng *rand.Rand, i int, _ float64) float64 {
			return 40 + 5*float64(i/(samples*85/100)) + 0.5*rng.NormFloat64()
		}, false},
		"in steps": {func(_ *rand.Rand, _ int, x float64) float64 { return 40 + 4*math.Floor(x*3) }, false},
		"doubles":  {func(_ *rand.Rand, _ int, x float64) float64 { return 40 * math.Exp2(x) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(5) {
				rng := rand.New(rand.NewPCG(seed, 1))
				v := Judge(series(samples, func(i int, x float64) float64 { return tc.f(rng, i, x) }), memory())
				require.True(t, v.Judged())
				require.Equal(t, tc.flat, v.Flat, "seed %d: %+v", seed, v)
				require.LessOrEqual(t, v.Low, v.PerHour)
				require.LessOrEqual(t, v.PerHour, v.High)
			}
		})
	}
}

func TestFigures(t *testing.T) {
	v := Judge(series(samples, func(_ int, x float64) float64 { return 100 + 10*x }), Tolerance{Share: 0.05, Least: 1})
	require.Equal(t, samples, v.N)
	require.InDelta(t, 105, v.Median, 1e-9)
	require.InDelta(t, 10, v.Rise, 1e-9)
	require.InDelta(t, 10/(float64(samples-1)*10/3600), v.PerHour, 1e-6)
	require.InDelta(t, v.PerHour, v.Low, 1e-6, "a line without noise has no interval")
	require.InDelta(t, v.PerHour, v.High, 1e-6)
	require.InDelta(t, 8, v.Step, 0.1)
	require.InDelta(t, 0, v.Noise, 1e-9)
	require.InDelta(t, 5.25, v.Allowed, 1e-9)
	require.False(t, v.Flat)
	require.InDelta(t, 1, Judge(series(samples, func(int, float64) float64 { return 3 }), Tolerance{Share: 0.05, Least: 1}).Allowed, 1e-9)
}

// TestInterval: where there is no trend, an interval of 99 % has zero in it in some
// 99 of 100 series; it is neither never nor always there.
func TestInterval(t *testing.T) {
	const runs = 400
	above := 0
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 2))
		v := Judge(series(40, func(int, float64) float64 { return rng.NormFloat64() }), memory())
		if v.Low > 0 || v.High < 0 {
			above++
		}
	}
	require.Positive(t, above)
	require.Less(t, above, runs/25)
}

// TestFewValues: without values enough nothing is flat.
func TestFewValues(t *testing.T) {
	for n := range Least {
		v := Judge(series(n, func(int, float64) float64 { return 1 }), memory())
		require.False(t, v.Judged())
		require.Equal(t, Verdict{N: n}, v)
	}
	require.True(t, Judge(series(Least, func(int, float64) float64 { return 1 }), memory()).Flat)
}

// TestSameMoment: values of one moment have no slope, and don't break it.
func TestSameMoment(t *testing.T) {
	points := make([]Point, Least)
	for i := range points {
		points[i].Value = float64(i)
	}
	v := Judge(points, Tolerance{Least: 100})
	require.True(t, v.Flat)
	require.Zero(t, v.PerHour)
}
