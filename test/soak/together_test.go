package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/internal/loadtest"
)

func TestTogether(t *testing.T) {
	results := make([]*loadtest.Result, 0, 2)
	for _, stall := range []time.Duration{0, 100 * time.Millisecond} {
		var id atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(stall)
			_, _ = io.WriteString(w, strconv.FormatInt(id.Add(1), 10))
		}))
		t.Cleanup(server.Close)
		r, err := loadtest.Run(t.Context(), loadtest.Config{
			URLs: []string{server.URL}, Mode: loadtest.Snowflake, Keys: []string{"k"}, Batch: 1, Rate: 100, Clients: 4,
			Duration: 200 * time.Millisecond, Timeout: 10 * time.Second,
		})
		require.NoError(t, err)
		results = append(results, r)
	}
	both := together(results)
	require.Equal(t, results[0].Latency.Count+results[1].Latency.Count, both.Count)
	require.Equal(t, max(results[0].Latency.Max, results[1].Latency.Max), both.Max)
	require.LessOrEqual(t, both.P50, max(results[0].Latency.P50, results[1].Latency.P50))
	require.GreaterOrEqual(t, both.P99, 100*time.Millisecond)
	require.Equal(t, loadtest.Latency{}, together([]*loadtest.Result{{}}))
}
