package snowflake_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/clocktest"
)

// requireDistinct fails naming an ID that stands twice; it sorts ids.
func requireDistinct(t *testing.T, ids []int64) {
	t.Helper()
	slices.Sort(ids)
	for i := 1; i < len(ids); i++ {
		if ids[i-1] == ids[i] {
			require.FailNow(t, "repeated ID", "%d", ids[i])
		}
	}
}

// requireOfWorker7 fails on an ID that another worker could issue, or at or
// above the ceiling.
func requireOfWorker7(t *testing.T, layout snowflake.Layout, ids []int64, ceiling clock.Millis) {
	t.Helper()
	for _, id := range ids {
		parts, err := layout.Decode(id)
		if err != nil || parts.Worker != 7 || parts.Time >= ceiling {
			require.FailNow(t, "foreign ID", "%d: %+v, %v, ceiling %d", id, parts, err, ceiling)
		}
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
				first := int64(-1)
				switch {
				case size == 1 && n%3 == 0: // some that follow one another
					first, size, err = g.NextAt(context.Background(), clock.System().Mono(), min(1+n%16, each-n))
				case size == 1:
					ids[n], err = g.Next(context.Background())
				case size%3 == 0: // as a range
					first, size, err = g.NextRange(context.Background(), size)
				default:
					err = g.NextN(context.Background(), ids[n:n+size])
				}
				if err != nil {
					t.Error(err)
					return
				}
				for j := 0; first >= 0 && j < size; j++ {
					ids[n+j] = first + int64(j)
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
	ids := slices.Concat(got...)
	requireDistinct(t, ids)
	requireOfWorker7(t, layout, ids, clock.System().Read().Wall()+1)
}

// The clock is stepped both ways under load: some calls are refused, no ID
// repeats, none lies at or above the ceiling, and issuing comes back.
func TestUniqueWhileTheClockSteps(t *testing.T) {
	for _, ahead := range []time.Duration{0, 20 * time.Millisecond} {
		t.Run(ahead.String(), func(t *testing.T) { uniqueWhileTheClockSteps(t, ahead) })
	}
}

func uniqueWhileTheClockSteps(t *testing.T, ahead time.Duration) {
	clk, err := clocktest.OpenSkewed(t.TempDir() + "/skew")
	require.NoError(t, err)
	defer func() { require.NoError(t, clk.Close()) }()
	fence := newFixedFence(clk.Read().Wall() + 60_000)
	g := newGenerator(t, clk, func(c *snowflake.Config) { c.Fence, c.Jitter, c.Ahead = fence, 100, ahead })
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
	require.Eventually(t, func() bool { return g.Check() == nil }, time.Minute, time.Millisecond)
	ceiling := clk.Read().Wall().Add(ahead) + 20
	fence.ceiling.Store(int64(ceiling))
	ceiling = max(ceiling, clk.Read().Wall().Add(ahead)+1) // where we were kept waiting in between, IDs had come until then
	// IDs above the new ceiling were issued under the old one if the clock was
	// ahead; Set(0) and Check came after that, so that there are none.
	require.Eventually(t, func() bool { return errors.Is(g.Check(), snowflake.ErrCeilingReached) }, time.Minute, time.Millisecond)
	cancel()
	wg.Wait()
	ids := slices.Concat(got...)
	require.NotEmpty(t, ids)
	require.Positive(t, refused.Load(), "no step was large enough: the test shows nothing")
	requireDistinct(t, ids)
	requireOfWorker7(t, snowflake.DefaultLayout(), ids, ceiling)
}

// hurrying is a clock that is a millisecond later at every look.
type hurrying struct {
	clock.Clock
	looks atomic.Int64
}

func (h *hurrying) Mono() time.Duration { return time.Duration(h.looks.Add(1)) * time.Millisecond }

func (h *hurrying) Wall() (int64, time.Duration) {
	mono := h.Mono()
	return noon.UnixNano() + int64(mono), mono
}

// No ID lies above what Stop returned. Each ID has a millisecond of its own
// here, so that a single one that slips past Stop shows.
func TestStopUnderLoad(t *testing.T) {
	callers := max(1, min(runtime.GOMAXPROCS(0), runtime.NumCPU())-1) // beside us: no goroutine waits for a processor
	began := time.Now()
	for round := range 5000 {
		if round > 100 && time.Since(began) > 5*time.Second {
			break // on one processor a round takes as long as the scheduler lets a goroutine run
		}
		g := newGenerator(t, &hurrying{Clock: clocktest.New(noon)})
		var wg sync.WaitGroup
		var begun atomic.Int64
		got := make([]int64, callers+1)
		for i := range callers {
			wg.Go(func() {
				for n := 0; ; n++ {
					id, err := g.Next(context.Background())
					if err != nil {
						return
					}
					got[i] = id
					if n == 0 {
						begun.Add(1)
					}
				}
			})
		}
		var err error
		for begun.Load() < int64(callers) && err == nil {
			got[callers], err = g.Next(t.Context())
			runtime.Gosched() // or they begin only at the end of our time slice
		}
		last := g.Stop()
		wg.Wait()
		require.NoError(t, err)
		parts, err := snowflake.DefaultLayout().Decode(slices.Max(got))
		require.NoError(t, err)
		require.Equal(t, last, parts.Time)
	}
}
