package loadtest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/internal/loadtest"
)

func TestTogether(t *testing.T) {
	t.Parallel()
	results := make([]*loadtest.Result, 0, 2)
	for _, stall := range []time.Duration{0, 100 * time.Millisecond} {
		_, url := serve(t, func(f *fake, w http.ResponseWriter, r *http.Request, nth int64) {
			time.Sleep(stall)
			f.growing(w, r, nth)
		})
		cfg := config(url)
		cfg.Rate = 100
		results = append(results, run(t, cfg))
	}
	both := loadtest.Together(results...)
	require.Equal(t, results[0].Latency.Count+results[1].Latency.Count, both.Count)
	require.Equal(t, max(results[0].Latency.Max, results[1].Latency.Max), both.Max)
	require.LessOrEqual(t, both.P50, max(results[0].Latency.P50, results[1].Latency.P50))
	require.GreaterOrEqual(t, both.P99, 100*time.Millisecond)
	require.Equal(t, loadtest.Latency{}, loadtest.Together())
}
