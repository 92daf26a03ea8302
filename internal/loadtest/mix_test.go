package loadtest_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/internal/loadtest/unique"
)

func journal(t *testing.T) *unique.Journal {
	t.Helper()
	j, err := unique.New(unique.Options{Dir: t.TempDir(), Memory: unique.MinMemory})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	return j
}

// TestRunsShareAJournal: an ID that two Runs got is found, with the client of each.
func TestRunsShareAJournal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		servers int
	}{{"one server", 1}, {"two that give the same IDs", 2}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			shared := journal(t)
			var urls []string
			for range tc.servers {
				_, url := serve(t, nil)
				urls = append(urls, url)
			}
			results := make([]*loadtest.Result, 2)
			var wg sync.WaitGroup
			for i := range results {
				cfg := config(t, urls[i%len(urls)])
				cfg.Check, cfg.Journals, cfg.FirstClient, cfg.Batch, cfg.Growing = nil, []*unique.Journal{shared}, 10*i, 1+i, false
				cfg.Rate = 200
				wg.Go(func() {
					r, err := loadtest.Run(t.Context(), cfg)
					if err == nil {
						results[i] = r
					}
				})
			}
			wg.Wait()
			var ids int64
			for _, r := range results {
				require.NotNil(t, r)
				require.Empty(t, r.FirstWrong)
				ids += r.Counts.IDs
				// The journal is the caller's: the Result has nothing to check or close.
				require.NoError(t, r.CheckUnique(t.Context(), nil))
				require.NoError(t, r.Close())
				require.NoError(t, r.Verdict())
				require.Empty(t, r.Unique)
			}
			report, err := shared.Check(t.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, ids, report.IDs)
			if tc.servers == 1 {
				require.Zero(t, report.Surplus)
				return
			}
			require.Positive(t, report.Surplus)
			for _, d := range report.First {
				require.NotEqual(t, d.Places[0].Client/10, d.Places[1].Client/10, "one of each Run")
			}
		})
	}
}

func TestTogether(t *testing.T) {
	t.Parallel()
	results := make([]*loadtest.Result, 0, 2)
	for _, stall := range []time.Duration{0, 100 * time.Millisecond} {
		_, url := serve(t, func(f *fake, w http.ResponseWriter, r *http.Request, nth int64) {
			time.Sleep(stall)
			f.growing(w, r, nth)
		})
		cfg := config(t, url)
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

// TestTick: requests go at the beats, and their latency counts from their turns.
func TestTick(t *testing.T) {
	t.Parallel()
	_, url := serve(t, nil)
	cfg := config(t, url)
	cfg.Clients, cfg.Rate, cfg.Tick, cfg.Duration = 40, 1000, 20*time.Millisecond, 500*time.Millisecond
	r := run(t, cfg)
	require.NoError(t, r.Verdict())
	require.Equal(t, int64(500), r.Due)
	require.Equal(t, r.Due, r.Counts.Sent+r.NotSent)
	// Turns lie evenly between the beats: half of them wait for half a tick or more.
	require.GreaterOrEqual(t, r.Latency.P90, 15*time.Millisecond)

	t.Run("ended early", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, url := serve(t, func(f *fake, w http.ResponseWriter, r *http.Request, nth int64) {
			f.growing(w, r, nth)
			cancel() // while all others wait for their beat
		})
		cfg := config(t, url)
		cfg.Rate, cfg.Tick, cfg.Duration = 1, time.Second, time.Hour
		r := runUntil(t, ctx, cfg)
		require.True(t, r.EndedEarly)
	})
}
