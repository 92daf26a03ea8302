package snowflake_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/clocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is a moment inside the default layout.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newGenerator(t *testing.T, clk clock.Clock, change ...func(*snowflake.Config)) *snowflake.Generator {
	t.Helper()
	cfg := snowflake.Config{Layout: snowflake.DefaultLayout(), Worker: 7, Clock: clk, Fence: openFence{}}
	for _, f := range change {
		f(&cfg)
	}
	g, err := snowflake.New(cfg)
	require.NoError(t, err)
	return g
}

func next(t *testing.T, g *snowflake.Generator) snowflake.Parts {
	t.Helper()
	id, err := g.Next(t.Context())
	require.NoError(t, err)
	return decode(t, id)
}

// A range ends where batches' part of its millisecond does, and another one begins
// in the next.
func TestRangesEndWithTheirMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGenerator(t, clocktest.NewBubble(noon))
		for i, want := range []int64{4064, 4064, 1872} {
			first, n, err := g.NextRange(t.Context(), int([]int64{10_000, 5936, 1872}[i]))
			require.NoError(t, err)
			require.EqualValues(t, want, n)
			for _, id := range []int64{first, first + want - 1} {
				parts, err := snowflake.DefaultLayout().Decode(id)
				require.NoError(t, err)
				require.Equal(t, snowflake.Parts{Time: clock.MillisOf(noon) + clock.Millis(i), Worker: 7, Sequence: id - first}, parts)
			}
		}
		g.Stop()
		_, _, err := g.NextRange(t.Context(), 5)
		require.ErrorIs(t, err, snowflake.ErrStopped)
	})
}

func TestJitterSpreadsFirstSequences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.NewBubble(noon)
		g := newGenerator(t, clk, func(c *snowflake.Config) { c.Jitter = 100 })
		seen := map[int64]bool{}
		for range 2000 {
			time.Sleep(time.Millisecond)
			seq := next(t, g).Sequence
			require.Less(t, seq, int64(100))
			seen[seq] = true
		}
		// 2000 draws from 100 miss more than 10 values about never (p < 1e-20).
		require.Greater(t, len(seen), 90)
	})
}

// A used-up millisecond is followed by a whole one: 4096 IDs each, or the lower half of them, no gap.
func TestUsedUpMillisecondWaitsForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for half, size := range map[bool]int{false: 4096, true: 2048} {
			g := newGenerator(t, clocktest.NewBubble(noon), func(c *snowflake.Config) { c.Jitter, c.Half = 100, half })
			first := next(t, g)
			perMilli := map[clock.Millis]int{first.Time: 1}
			for range 3*size - 1 {
				is := next(t, g)
				require.Less(t, is.Sequence, int64(size))
				perMilli[is.Time]++
			}
			require.Equal(t, size-int(first.Sequence), perMilli[first.Time])
			require.Equal(t, size, perMilli[first.Time+1])
			require.Equal(t, size, perMilli[first.Time+2])
		}
	})
}

// forBatches is how many sequences of a millisecond batches get.
const forBatches = 4096 - 4096/128

// useUp takes all IDs of the millisecond.
func useUp(t *testing.T, g *snowflake.Generator) {
	t.Helper()
	for range 4096 {
		next(t, g)
	}
}

// While batches wait for the next milliseconds, one ID is there at once, also
// the first one of a millisecond.
func TestBatchesLeaveSingleIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.NewBubble(noon)
		g := newGenerator(t, clk)
		var batches sync.WaitGroup
		for range 4 {
			batches.Go(func() {
				if err := g.NextN(context.Background(), make([]int64, forBatches)); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		for milli := range 4 {
			for range 4096 - forBatches {
				_, err := g.Next(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, milli, clk.Millis().Sub(clock.MillisOf(noon)).Milliseconds(), "nothing waits for the next millisecond")
			}
			time.Sleep(time.Millisecond)
		}
		batches.Wait()
	})
}

func TestWaitersLeaveWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.NewBubble(noon)
		g := newGenerator(t, clk)
		useUp(t, g)
		sleeping, cancelSleeper := context.WithCancel(t.Context())
		sleeper, waiter := make(chan error, 1), make(chan error, 1)
		go func() { _, err := g.Next(sleeping); sleeper <- err }()
		synctest.Wait()
		go func() { _, err := g.Next(context.Background()); waiter <- err }()
		synctest.Wait()
		cancelSleeper()
		require.ErrorIs(t, <-sleeper, context.Canceled)
		require.NoError(t, <-waiter)
		require.EqualValues(t, 1, g.Stats().GivenUp)
	})
}

func TestRollback(t *testing.T) {
	for name, tt := range map[string]struct {
		back    time.Duration
		refused bool
	}{
		"1 ms is waited out":  {back: time.Millisecond},
		"5 ms is waited out":  {back: 5 * time.Millisecond},
		"6 ms is refused":     {back: 6 * time.Millisecond, refused: true},
		"an hour is refused":  {back: time.Hour, refused: true},
		"to 1970, is refused": {back: time.Duration(noon.UnixNano() - 1e9), refused: true},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			clk := clocktest.NewBubble(noon)
			g := newGenerator(t, clk)
			before := next(t, g)
			time.Sleep(time.Millisecond) // a step shows when the millisecond is over
			start := clk.Mono()
			clk.Step(-tt.back - time.Millisecond)
			if !tt.refused {
				require.Greater(t, next(t, g).Time, before.Time)
				require.Equal(t, 2*tt.back, clk.Mono()-start, "twice the offset")
				return
			}
			for range 3 {
				_, err := g.Next(t.Context())
				require.ErrorIs(t, err, snowflake.ErrClockBackwards)
				require.ErrorIs(t, g.NextN(t.Context(), make([]int64, 10)), snowflake.ErrClockBackwards)
				require.ErrorIs(t, g.Check(), snowflake.ErrClockBackwards)
			}
			require.Equal(t, uint64(6), g.Refused())
			require.Equal(t, start, clk.Mono(), "a refusal waits for nothing")
			time.Sleep(tt.back) // caught up: it comes back by itself
			require.NoError(t, g.Check())
			require.Equal(t, snowflake.Parts{Time: before.Time, Worker: 7, Sequence: before.Sequence + 1}, next(t, g))
		})
	}
}

// With Ahead, times go on above the last one up to there: when a millisecond is used up, and when the clock is set
// back. Beyond it all is as without.
func TestAheadOfTheClock(t *testing.T) {
	const ahead = 10 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.NewBubble(noon)
		now := clock.MillisOf(noon)
		g := newGenerator(t, clk, func(c *snowflake.Config) { c.Ahead = ahead })
		before := int64(-1)
		for range 11 * 4096 {
			id, err := g.Next(t.Context())
			require.NoError(t, err)
			require.Greater(t, id, before)
			before = id
		}
		require.Equal(t, noon, clk.Read().Wall().Time(), "nothing was waited for")
		require.Equal(t, snowflake.Parts{Time: now.Add(ahead), Worker: 7, Sequence: 4095}, decode(t, before))
		require.Equal(t, now.Add(ahead+time.Millisecond), next(t, g).Time)
		require.Equal(t, now.Add(time.Millisecond), clk.Read().Wall(), "used up there, the next millisecond is waited for")
		require.NoError(t, g.NextN(t.Context(), make([]int64, 5000)))

		time.Sleep(time.Second)
		last := next(t, g)
		time.Sleep(time.Millisecond)
		start := clk.Mono()
		clk.Step(-ahead - time.Millisecond)
		require.NoError(t, g.Check())
		require.Equal(t, snowflake.Parts{Time: last.Time, Worker: 7, Sequence: last.Sequence + 1}, next(t, g), "set back")
		require.Equal(t, start, clk.Mono())
		clk.Step(-3 * time.Millisecond)
		time.Sleep(time.Millisecond)
		require.NoError(t, g.Check())
		require.Equal(t, last.Time, next(t, g).Time, "a little beyond: waited out")
		clk.Step(-ahead)
		time.Sleep(time.Millisecond)
		require.ErrorIs(t, g.Check(), snowflake.ErrClockBackwards)
		_, err := g.Next(t.Context())
		require.ErrorIs(t, err, snowflake.ErrClockBackwards)
	})
	synctest.Test(t, func(t *testing.T) { // floor-to-ceiling
		now := clock.MillisOf(noon)
		g := newGenerator(t, clocktest.NewBubble(noon), func(c *snowflake.Config) { c.Ahead, c.Fence = ahead, newFixedFence(now+3) })
		for range 3 * 4096 {
			require.Less(t, next(t, g).Time, now+3)
		}
		_, err := g.Next(t.Context())
		require.ErrorIs(t, err, snowflake.ErrCeilingReached)
	})
}

func decode(t *testing.T, id int64) snowflake.Parts {
	t.Helper()
	parts, err := snowflake.DefaultLayout().Decode(id)
	require.NoError(t, err)
	return parts
}

// A clock that is still behind after the wait refuses instead of waiting on.
func TestClockStillBehindAfterTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.NewBubble(noon)
		g := newGenerator(t, clk)
		next(t, g)
		time.Sleep(time.Millisecond)
		clk.Step(-4 * time.Millisecond)
		failed := make(chan error, 1)
		go func() { _, err := g.Next(context.Background()); failed <- err }()
		synctest.Wait()
		clk.Step(-6 * time.Millisecond)
		require.ErrorIs(t, <-failed, snowflake.ErrClockBackwards)
	})
}

// The step is seen although the hot path reads the monotonic clock only.
func TestStepIsSeenWithinAMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.NewBubble(noon)
		g := newGenerator(t, clk)
		next(t, g)
		clk.Step(-time.Minute)
		next(t, g) // the millisecond isn't over on the monotonic clock
		time.Sleep(time.Millisecond)
		_, err := g.Next(t.Context())
		require.ErrorIs(t, err, snowflake.ErrClockBackwards)
	})
}

func TestCeilingIsNeverReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.NewBubble(noon)
		ceiling := clock.MillisOf(noon) + 10
		fence := newFixedFence(ceiling)
		g := newGenerator(t, clk, func(c *snowflake.Config) { c.Fence = fence })
		for range 10 {
			require.Less(t, next(t, g).Time, ceiling)
			time.Sleep(time.Millisecond)
		}
		_, err := g.Next(t.Context())
		require.ErrorIs(t, err, snowflake.ErrCeilingReached)
		require.ErrorIs(t, g.NextN(t.Context(), make([]int64, 3)), snowflake.ErrCeilingReached)
		require.ErrorIs(t, g.Check(), snowflake.ErrCeilingReached)
		fence.ceiling.Add(1)
		require.NoError(t, g.Check())
		require.Equal(t, ceiling, next(t, g).Time)
		fence.ceiling.Store(0) // within a millisecond that has IDs left, too
		ended, end := context.WithCancel(t.Context())
		end()
		_, err = g.Next(ended)
		require.ErrorIs(t, err, snowflake.ErrCeilingReached)
		require.EqualValues(t, 1, g.Stats().GivenUp, "of one that is gone")
	})
}

func TestNothingBelowTheFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.NewBubble(noon)
		floor := clock.MillisOf(noon) + 20
		g := newGenerator(t, clk, func(c *snowflake.Config) { c.Floor = floor })
		_, err := g.Next(t.Context())
		require.ErrorIs(t, err, snowflake.ErrClockBackwards)
		time.Sleep(20 * time.Millisecond)
		require.Equal(t, floor, next(t, g).Time)

		clk = clocktest.NewBubble(floor.Time().Add(-time.Millisecond))
		g = newGenerator(t, clk, func(c *snowflake.Config) { c.Floor = floor })
		require.GreaterOrEqual(t, next(t, g).Time, floor, "the millisecond below it is waited out")
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.NewBubble(noon)
		g := newGenerator(t, clk)
		require.Equal(t, snowflake.DefaultEpoch, newGenerator(t, clk).Stop(), "nothing issued: the millisecond below the floor")
		last := next(t, g).Time
		time.Sleep(time.Second)
		require.Equal(t, last, g.Stop())
		require.Equal(t, last, g.Stop(), "again")
		_, err := g.Next(t.Context())
		require.ErrorIs(t, err, snowflake.ErrStopped)
		require.ErrorIs(t, g.NextN(t.Context(), make([]int64, 2)), snowflake.ErrStopped)
		require.ErrorIs(t, g.Check(), snowflake.ErrStopped)
	})
}

func TestNewRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*snowflake.Config)
		want   error
	}{
		"zero layout":          {func(c *snowflake.Config) { c.Layout = snowflake.Layout{} }, snowflake.ErrBadLayout},
		"worker too large":     {func(c *snowflake.Config) { c.Worker = 1024 }, snowflake.ErrBadLayout},
		"worker negative":      {func(c *snowflake.Config) { c.Worker = -1 }, snowflake.ErrBadLayout},
		"datacenter not there": {func(c *snowflake.Config) { c.Datacenter = 1 }, snowflake.ErrBadLayout},
		"jitter too large":     {func(c *snowflake.Config) { c.Jitter = 4097 }, snowflake.ErrBadLayout},
		"jitter beyond half":   {func(c *snowflake.Config) { c.Jitter, c.Half = 2049, true }, snowflake.ErrBadLayout},
		"half of too little":   {func(c *snowflake.Config) { c.Layout.SequenceBits, c.Half = 9, true }, snowflake.ErrBadLayout},
		"clock before epoch":   {func(c *snowflake.Config) { c.Clock = clocktest.New(time.Unix(0, 0)) }, snowflake.ErrTimeExhausted},
		"clock past the end": {func(c *snowflake.Config) {
			c.Clock = clocktest.New(snowflake.DefaultLayout().End().Time().Add(time.Millisecond))
		}, snowflake.ErrTimeExhausted},
		"floor past the end": {func(c *snowflake.Config) { c.Floor = snowflake.DefaultLayout().End() + 1 }, snowflake.ErrTimeExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := snowflake.Config{Layout: snowflake.DefaultLayout(), Clock: clocktest.New(noon), Fence: openFence{}}
			tt.change(&cfg)
			_, err := snowflake.New(cfg)
			require.ErrorIs(t, err, tt.want)
		})
	}
	_, err := snowflake.New(snowflake.Config{Layout: snowflake.DefaultLayout(), Clock: clocktest.New(noon)})
	require.ErrorContains(t, err, "Fence")
}

// A reading of the clock that is too old, or of another clock, costs another
// look and nothing else.
func TestNextAtWithAnyReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.NewBubble(noon)
		g := newGenerator(t, clk)
		stale := clk.Mono()
		last := int64(-1)
		for _, mono := range []time.Duration{stale, 0, -time.Hour, time.Hour, stale} {
			time.Sleep(time.Millisecond)
			id, _, err := g.NextAt(t.Context(), mono, 1)
			require.NoError(t, err)
			require.Greater(t, id, last)
			last = id
			parts, err := snowflake.DefaultLayout().Decode(id)
			require.NoError(t, err)
			require.Equal(t, clk.Millis(), parts.Time)
		}
	})
}
