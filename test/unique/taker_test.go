package unique_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/test/unique"
)

// counting starts a server that gives the numbers from 1.
func counting(t *testing.T) string {
	t.Helper()
	var given atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strconv.FormatInt(given.Add(1), 10))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func load(url string, first int, take func(int, unique.Place, []int64)) loadtest.Config {
	return loadtest.Config{
		URLs: []string{url}, Mode: loadtest.Snowflake, Keys: []string{"k"}, Batch: 1, Clients: 4, Rate: 200,
		Duration: 200 * time.Millisecond, Timeout: 10 * time.Second, FirstClient: first, Take: take,
	}
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
			shared := open(t, unique.Options{Dir: t.TempDir(), Memory: unique.MinMemory})
			var urls []string
			for range tc.servers {
				urls = append(urls, counting(t))
			}
			results, errs := make([]*loadtest.Result, 2), make([]error, 2)
			var broken atomic.Bool
			var wg sync.WaitGroup
			for i := range results {
				cfg := load(urls[i%len(urls)], 10*i, unique.Taker(func(error) { broken.Store(true) }, shared))
				wg.Go(func() { results[i], errs[i] = loadtest.Run(t.Context(), cfg) })
			}
			wg.Wait()
			require.NoError(t, errors.Join(errs...))
			require.False(t, broken.Load())
			report, err := shared.Check(t.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, results[0].IDs+results[1].IDs, report.IDs)
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

// TestTakerTellsOfABrokenJournal: the load can end at once, for there will be no verdict.
func TestTakerTellsOfABrokenJournal(t *testing.T) {
	t.Parallel()
	j := open(t, unique.Options{Dir: t.TempDir(), Memory: unique.MinMemory})
	var broken atomic.Pointer[error]
	take := unique.Taker(func(err error) { broken.Store(&err) }, j)
	take(0, unique.Place{}, []int64{1})
	require.Nil(t, broken.Load())
	require.NoError(t, j.Close())
	take(0, unique.Place{}, []int64{2})
	require.ErrorIs(t, *broken.Load(), unique.ErrChecked)
}
