// Package figures has what the programs that measure share: medians, ratios with their targets,
// tables, and what a process costs.
package figures

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Median returns the middle of values, the mean of the two middle ones where
// their number is even, and 0 where there are none. values keeps its order.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return sorted[n/2]
	default:
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
}

// MedianRatio returns the median of the ratios a[i]/b[i]. Two values of one
// round were measured next to each other, so their ratio has less of the
// machine's drift in it than the ratio of two medians has.
func MedianRatio(a, b []float64) float64 {
	ratios := make([]float64, 0, len(a))
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			ratios = append(ratios, a[i]/b[i])
		}
	}
	return Median(ratios)
}

// Target is a bound that a figure should keep.
type Target struct {
	atLeast bool
	bound   float64
	set     bool
}

// AtLeast is the target of a figure that may not be lower.
func AtLeast(bound float64) Target { return Target{atLeast: true, bound: bound, set: true} }

// AtMost is the target of a figure that may not be higher.
func AtMost(bound float64) Target { return Target{bound: bound, set: true} }

// Beside returns value, printed with format, and next to it the target and
// whether it was met. The zero Target adds nothing.
func (t Target) Beside(format string, value float64) string {
	figure := fmt.Sprintf(format, value)
	if !t.set {
		return figure
	}
	sign, met := "<=", value <= t.bound
	if t.atLeast {
		sign, met = ">=", value >= t.bound
	}
	verdict := "met"
	if !met {
		verdict = "MISSED"
	}
	return fmt.Sprintf("%s (%s %s: %s)", figure, sign, strings.TrimSpace(fmt.Sprintf(format, t.bound)), verdict)
}

// Load is what a load showed.
type Load struct {
	Requests float64
	Elapsed  time.Duration
	P50, P99 time.Duration // of a pipeline
}

// Table prints rows under a heading, as Markdown has them; the first row names the columns.
func Table(w io.Writer, heading string, rows ...[]string) error {
	text := fmt.Sprintf("\n### %s\n\n", heading)
	for i, row := range rows {
		text += "| " + strings.Join(row, " | ") + " |\n"
		if i == 0 {
			text += strings.Repeat("| --- ", len(row)) + "|\n"
		}
	}
	_, err := io.WriteString(w, text)
	return err
}

// CPU is the time that all threads of a process have run for so far, those that have ended
// too, by the process's clock of CPU time (clock_getcpuclockid).
func CPU(pid int) (time.Duration, error) {
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &at); err != nil { //nolint:gosec // pids have 22 bits
		return 0, fmt.Errorf("CPU time of process %d: %w: has it ended?", pid, err)
	}
	return time.Duration(at.Nano()), nil
}

// RSS is the memory of a process that is resident, in bytes. It works on Linux only.
func RSS(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	var kilobytes float64
	if _, err := fmt.Sscan(after, &kilobytes); err != nil {
		return 0, fmt.Errorf("no VmRSS in the status of process %d: %w", pid, err)
	}
	return kilobytes * 1024, nil
}
