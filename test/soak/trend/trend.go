// Package trend tells whether a figure that was looked at again and again stays
// where it is or grows.
//
// The criterion, in words. A series grows when it does in either of two ways:
//
//   - steadily: the line through it (Theil and Sen: the median of the slopes of all
//     pairs) rises by more than the tolerance from its first to its last value, and
//     that is no chance: the slope's 99 % confidence interval, by Kendall's
//     variance, lies above zero;
//   - by a step: the median of its last fifth is above that of its first fifth by
//     more than the tolerance and twice the noise together. The noise is the median
//     distance of the values from the line, scaled to a standard deviation.
//
// The tolerance is a share of the median, and at least an absolute amount. So a
// figure that falls is flat, and so is one that swings, however widely, if it does
// ten times or more over the series: medians mind neither single values nor the saw
// teeth of a garbage collector. What grows by less than the tolerance isn't seen.
//
// Values that follow on each other are taken as independent, which memory's aren't:
// by chance alone more than one interval in a hundred lies above zero. A series
// grows by the tolerance too, or it is flat.
package trend

import (
	"math"
	"slices"
	"time"
)

// Least is how many values a series has at least for a verdict.
const Least = 20

// Tolerance is how much a series may rise and still be flat.
type Tolerance struct {
	// Share is of the median.
	Share float64
	// Least is in the unit of the series.
	Least float64
}

func (t Tolerance) of(median float64) float64 { return max(t.Least, t.Share*math.Abs(median)) }

// Point is a value and when it was seen. Times grow.
type Point struct {
	At    time.Duration
	Value float64
}

// Verdict is what there is to say of a series. But for PerHour all are in its unit.
type Verdict struct {
	// N is how many values there were. With fewer than Least of them the rest is 0,
	// and Flat is false.
	N      int
	Median float64
	// PerHour is the slope, Low and High its 99 % confidence interval.
	PerHour, Low, High float64
	// Rise is how much the line rises over the series.
	Rise float64
	// Step is how much the median of the last fifth is above that of the first.
	Step float64
	// Noise is the standard deviation of the values from the line, by their median.
	Noise float64
	// Allowed is the tolerance.
	Allowed float64
	// Flat is the verdict.
	Flat bool
}

// Judged tells whether there were values enough for a verdict.
func (v Verdict) Judged() bool { return v.N >= Least }

// Judge tells whether a series is flat.
func Judge(points []Point, tolerance Tolerance) Verdict {
	v := Verdict{N: len(points)}
	if !v.Judged() {
		return v
	}
	values := make([]float64, len(points))
	for i, p := range points {
		values[i] = p.Value
	}
	v.Median = median(values)
	v.Allowed = tolerance.of(v.Median)
	slope, low, high := theilSen(points)
	v.PerHour, v.Low, v.High = slope*3600, low*3600, high*3600
	first, last := points[0].At, points[len(points)-1].At
	v.Rise = slope * (last - first).Seconds()
	fifth := len(values) / 5
	v.Step = median(values[len(values)-fifth:]) - median(values[:fifth])
	v.Noise = noise(points, slope)
	steadily := v.Rise > v.Allowed && low > 0
	byStep := v.Step > v.Allowed+2*v.Noise
	v.Flat = !steadily && !byStep
	return v
}

// theilSen returns the median of the slopes of all pairs, per second, and their 99 %
// confidence interval (Sen, "Estimates of the regression coefficient based on
// Kendall's tau", 1968).
func theilSen(points []Point) (slope, low, high float64) {
	n := len(points)
	slopes := make([]float64, 0, n*(n-1)/2)
	for i, a := range points {
		for _, b := range points[i+1:] {
			if dt := (b.At - a.At).Seconds(); dt > 0 {
				slopes = append(slopes, (b.Value-a.Value)/dt)
			}
		}
	}
	if len(slopes) == 0 {
		return 0, 0, 0
	}
	slices.Sort(slopes)
	const z99 = 2.576 // two-sided, of the normal distribution
	c := z99 * math.Sqrt(kendallVariance(points))
	below := int(math.Floor((float64(len(slopes)) - c) / 2))
	above := int(math.Ceil((float64(len(slopes)) + c) / 2))
	return medianSorted(slopes), slopes[max(0, below)], slopes[min(len(slopes)-1, above)]
}

// kendallVariance is the variance of Kendall's S where there is no trend, with the
// correction for equal values.
func kendallVariance(points []Point) float64 {
	part := func(n int) float64 { return float64(n) * float64(n-1) * float64(2*n+5) }
	counts := map[float64]int{}
	for _, p := range points {
		counts[p.Value]++
	}
	variance := part(len(points))
	for _, n := range counts {
		variance -= part(n)
	}
	return max(0, variance) / 18
}

// noise is the median distance from the line through the median of the values'
// offsets, times what makes it a standard deviation where the noise is normal.
func noise(points []Point, slope float64) float64 {
	const normal = 1.4826
	rest := make([]float64, len(points))
	for i, p := range points {
		rest[i] = p.Value - slope*p.At.Seconds()
	}
	middle := median(rest)
	for i, r := range rest {
		rest[i] = math.Abs(r - middle)
	}
	return normal * median(rest)
}

// median returns the middle of values; they keep their order.
func median(values []float64) float64 { return medianSorted(slices.Sorted(slices.Values(values))) }

func medianSorted(values []float64) float64 {
	n := len(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}
