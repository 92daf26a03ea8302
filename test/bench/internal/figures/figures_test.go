package figures_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/bench/internal/figures"
)

func TestMedian(t *testing.T) {
	for name, tc := range map[string]struct {
		values []float64
		want   float64
	}{
		"none":      {nil, 0},
		"one":       {[]float64{7}, 7},
		"odd":       {[]float64{9, 1, 5}, 5},
		"even":      {[]float64{4, 1, 3, 2}, 2.5},
		"unchanged": {[]float64{3, 3, 3}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			before := append([]float64(nil), tc.values...)
			require.InDelta(t, tc.want, figures.Median(tc.values), 1e-9)
			require.Equal(t, before, tc.values, "the order of the rounds was lost")
		})
	}
}

func TestMedianRatioPairsRounds(t *testing.T) {
	// The machine became three times as fast half-way: the pairs don't mind.
	a := []float64{98, 99, 294, 297}
	b := []float64{100, 100, 300, 300}
	require.InDelta(t, 0.985, figures.MedianRatio(a, b), 1e-9)
	require.Zero(t, figures.MedianRatio(nil, nil))
}

func TestTarget(t *testing.T) {
	for name, tc := range map[string]struct {
		target figures.Target
		value  float64
		want   string
	}{
		"no target":      {figures.Target{}, 1.5, "1.50"},
		"at least, met":  {figures.AtLeast(0.97), 0.98, "0.98 (>= 0.97: met)"},
		"at least, not":  {figures.AtLeast(0.97), 0.96, "0.96 (>= 0.97: MISSED)"},
		"at most, met":   {figures.AtMost(1.05), 1.05, "1.05 (<= 1.05: met)"},
		"at most, not":   {figures.AtMost(1.05), 1.06, "1.06 (<= 1.05: MISSED)"},
		"rounds to meet": {figures.AtMost(1.05), 1.0501, "1.05 (<= 1.05: MISSED)"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, tc.target.Beside("%.2f", tc.value))
		})
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	require.NoError(t, figures.Table(&out, "Speed", []string{"", "ns"}, []string{"it", "7"}))
	require.Equal(t, "\n### Speed\n\n|  | ns |\n| --- | --- |\n| it | 7 |\n", out.String())
}

// TestProcess: this one is busy, and has some memory.
func TestProcess(t *testing.T) {
	require.Eventually(t, func() bool {
		cpu, err := figures.CPU(os.Getpid())
		return err == nil && cpu > 10*time.Millisecond
	}, time.Minute, time.Microsecond)
	rss, err := figures.RSS(os.Getpid())
	require.NoError(t, err)
	require.Greater(t, rss, 1e6)
	_, err = figures.CPU(1 << 22)
	require.ErrorContains(t, err, "has it ended?")
}
