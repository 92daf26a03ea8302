package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGrown: a goroutine a round is a leak, a larger round is none.
func TestGrown(t *testing.T) {
	var flat, leaks [][]float64
	for round := range rounds {
		flat = append(flat, []float64{30e6 + float64(round%2)*8e6, 4e6, 40, 30})
		leaks = append(leaks, []float64{30e6, 4e6, 40 + 4*float64(round), 30})
	}
	flat[8][2] = 400
	require.NoError(t, grown(flat))
	require.ErrorContains(t, grown(leaks), "go_goroutines grew: [40 44")
	require.NotContains(t, grown(leaks).Error(), "process_open_fds")
}
