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
	require.Zero(t, figures.Median(nil))
	require.InDelta(t, 7, figures.Median([]float64{7}), 1e-9)
	require.InDelta(t, 2.5, figures.Median([]float64{4, 1, 3, 2}), 1e-9)
	rounds := []float64{9, 1, 5}
	require.InDelta(t, 5, figures.Median(rounds), 1e-9)
	require.Equal(t, []float64{9, 1, 5}, rounds, "the order of the rounds was lost")
}

func TestMedianRatioPairsRounds(t *testing.T) {
	// The machine became three times as fast half-way: the pairs don't mind.
	a := []float64{98, 99, 294, 297}
	b := []float64{100, 100, 300, 300}
	require.InDelta(t, 0.985, figures.MedianRatio(a, b), 1e-9)
	require.Zero(t, figures.MedianRatio(nil, nil))
}

func TestTarget(t *testing.T) {
	for want, got := range map[string]string{
		"1.50":                   figures.Target{}.Beside("%.2f", 1.5),
		"0.98 (>= 0.97: met)":    figures.AtLeast(0.97).Beside("%.2f", 0.98),
		"0.96 (>= 0.97: MISSED)": figures.AtLeast(0.97).Beside("%.2f", 0.96),
		"1.05 (<= 1.05: met)":    figures.AtMost(1.05).Beside("%.2f", 1.05),
		"1.05 (<= 1.05: MISSED)": figures.AtMost(1.05).Beside("%.2f", 1.0501),
	} {
		require.Equal(t, want, got)
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
