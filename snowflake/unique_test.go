package snowflake_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/clock/clocktest"
	"github.com/leafd/leafd/snowflake"
)

// requireDistinct fails naming an ID that stands twice; it sorts ids.
func requireDistinct(t *testing.T, ids []int64) {
	t.Helper()
	slices.Sort(ids)
	for i := 1; i < len(ids); i++ {
		require.NotEqual(t, ids[i-1], ids[i], "repeated ID")
	}
}

// A popular generator repeats IDs at this size (8 goroutines, 4 million IDs),
// and not at a tenth of it.
func TestUniqueUnderContention(t *testing.T) {
	const callers, each = 8, 500_000
	// Enough IDs a millisecond that the compare-and-swap is the bottleneck.
	layout := snowflake.Layout{Epoch: snowflake.DefaultEpoch, TimeBits: 41, WorkerBits: 6, SequenceBits: 16}
	g := newGenerator(t, clock.System(), func(c *snowflake.Config) { c.Layout, c.Jitter = layout, 100 })
	got := make([][]int64, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			ids := make([]int64, each)
			for n := 0; n < each; {
				size := 1
				if i%2 == 1 {
					size = min(1+n%200, each-n)
				}
				var err error
				if size == 1 {
					ids[n], err = g.Next(context.Background())
				} else {
					err = g.NextN(context.Background(), ids[n:n+size])
				}
				if err != nil {
					t.Error(err)
					return
				}
				n += size
			}
			got[i] = ids
		})
	}
	wg.Wait()
	for i, ids := range got {
		require.True(t, slices.IsSorted(ids), "caller %d: IDs must grow", i)
	}
	requireDistinct(t, slices.Concat(got...))
}

// The clock is stepped both ways under load: some calls are refused, no ID
// repeats, none lies at or above the ceiling, and issuing comes back.
func TestUniqueWhileTheClockSteps(t *testing.T) {
	clk, err := clocktest.OpenSkewed(t.TempDir() + "/skew")
	require.NoError(t, err)
	defer func() { require.NoError(t, clk.Close()) }()
	fence := newFixedFence(clk.Read().Wall() + 60_000)
	g := newGenerator(t, clk, func(c *snowflake.Config) { c.Fence, c.Jitter = fence, 100 })
	ctx, cancel := context.WithCancel(t.Context())
	const callers = 8
	got := make([][]int64, callers)
	var refused atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			buf := make([]int64, 50)
			for ctx.Err() == nil {
				if err := g.NextN(context.Background(), buf); err != nil {
					refused.Add(1)
					continue
				}
				got[i] = append(got[i], buf...)
			}
		})
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		clk.Set(time.Duration(rnd.IntN(60)-30) * time.Millisecond)
		time.Sleep(time.Millisecond)
	}
	clk.Set(0)
	require.Eventually(t, func() bool { return g.Check() == nil }, 10*time.Second, time.Millisecond)
	cancel()
	wg.Wait()
	ids := slices.Concat(got...)
	require.NotEmpty(t, ids)
	require.Positive(t, refused.Load(), "no step was large enough: the test shows nothing")
	requireDistinct(t, ids)
}

// G4: after Stop returned, no ID is at or above what it said, plus one.
func TestStopUnderLoad(t *testing.T) {
	for range 50 {
		g := newGenerator(t, clock.System())
		var wg sync.WaitGroup
		got := make([]int64, 4)
		for i := range got {
			wg.Go(func() {
				for {
					id, err := g.Next(context.Background())
					if err != nil {
						return
					}
					got[i] = id
				}
			})
		}
		time.Sleep(time.Millisecond)
		last := g.Stop()
		wg.Wait()
		id := slices.Max(got)
		parts, err := snowflake.DefaultLayout().Decode(id)
		require.NoError(t, err)
		if id != 0 {
			require.Equal(t, last, parts.Time)
		}
	}
}
