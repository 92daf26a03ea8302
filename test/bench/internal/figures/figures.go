// Package figures has what the sections of the benchmark report share: medians,
// ratios with their targets, and a table to print them in.
package figures

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
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

// Table prints rows under a heading, in aligned columns.
func Table(w io.Writer, heading string, rows [][]string) error {
	if _, err := fmt.Fprintf(w, "\n%s\n", heading); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		if _, err := fmt.Fprintln(table, "  "+strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return table.Flush()
}

// Markdown writes rows as a table of Markdown; the first is its heading where it
// begins with an empty cell.
func Markdown(b *bytes.Buffer, heading string, rows [][]string) {
	fmt.Fprintf(b, "\n### %s\n\n", heading)
	width := 0
	for _, row := range rows {
		width = max(width, len(row))
	}
	line := func(row []string) {
		for i := range width {
			cell := ""
			if i < len(row) {
				cell = strings.ReplaceAll(row[i], "|", "\\|")
			}
			fmt.Fprintf(b, "| %s ", cell)
		}
		b.WriteString("|\n")
	}
	if len(rows) > 0 && len(rows[0]) > 0 && rows[0][0] == "" {
		line(rows[0])
		rows = rows[1:]
	} else {
		line(nil)
	}
	b.WriteString(strings.Repeat("| --- ", width) + "|\n")
	for _, row := range rows {
		line(row)
	}
}
