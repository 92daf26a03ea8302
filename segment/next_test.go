package segment_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
)

// The next range is fetched once a tenth of the current is used, once, by a single ID or by a batch.
func TestPrefetchAtATenth(t *testing.T) {
	for step, at := range map[int64]int{10: 1, 11: 2, 100: 10, 1000: 100} { // at: the ID, counted from 1
		for _, batch := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				d := newDaemon(t)
				d.store.Set("order", 0, step)
				d.id("order")
				if batch && at > 1 {
					d.draw("order", at-1)
				}
				for i := 1; !batch && i < at; i++ {
					synctest.Wait()
					require.Equal(t, 1, d.store.Fetches("order"))
					d.id("order")
				}
				synctest.Wait()
				require.Equal(t, 2, d.store.Fetches("order"))
				st := d.status("order")
				require.Equal(t, step, st.Next.Lo)
				for d.status("order").Current.Position < step {
					d.id("order")
				}
				synctest.Wait()
				require.Equal(t, 2, d.store.Fetches("order"), "the rest of the range asks for nothing")
			})
		}
	}
}

// A thousand callers at once: no ID twice, and each caller's grow.
func TestThousandCallersOnStep100(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Set("order", 0, 100)
		var check checker
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				mine := []int64{-1}
				for range 5 {
					mine = append(mine, d.id("order"))
					ids, err := d.ids("order", 5)
					require.NoError(t, err)
					mine = append(mine, ids...)
				}
				require.IsIncreasing(t, mine)
				check.add("x", "order", mine[1:]...)
			})
		}
		all.Wait()
		require.Empty(t, check.twice)
	})
}

// Try takes what the range in memory has, and uses nothing where there is none.
func TestTry(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Set("order", 0, 100)
		tag, err := d.Find(t.Context(), []byte("order"))
		require.NoError(t, err)
		for i, c := range []struct{ ask, first, n int }{{5, 0, 0}, {0, 0, 0}, {8, 1, 8}, {50, 9, 50}, {50, 59, 41}, {50, 0, 0}} {
			if c.ask == 0 {
				require.Zero(t, d.id("order"))
				continue
			}
			first, n := tag.Try(c.ask)
			require.Equal(t, c.n, n, i)
			if n > 0 {
				require.EqualValues(t, c.first, first)
			}
			synctest.Wait()
		}
		require.EqualValues(t, 100, d.id("order"), "none was lost")
		ranges, err := tag.NextRanges(t.Context(), 3, nil)
		require.NoError(t, err)
		require.Equal(t, []segment.IDRange{{First: 101, Last: 103}}, ranges)
		require.Equal(t, "order", tag.Name())
	})
}

// A range costs one add, however many IDs it has, and a call is served whole or not at all.
func TestNextRanges(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Set("order", 1, 100_000)
		ask := func(n int) []segment.IDRange {
			t.Helper()
			before := []segment.IDRange{{First: -5, Last: -1}}
			ranges, err := d.NextRanges(t.Context(), []byte("order"), n, before)
			require.NoError(t, err)
			require.Equal(t, before[0], ranges[0], "what was there stays")
			synctest.Wait()
			return ranges[1:]
		}
		require.Empty(t, ask(0))
		require.Zero(t, d.store.Fetches("order"), "no ID wanted, none fetched")
		require.Equal(t, []segment.IDRange{{1, 1}}, ask(1))
		require.Equal(t, []segment.IDRange{{2, 90_001}}, ask(90_000))
		require.Equal(t, []segment.IDRange{{90_002, 100_000}, {100_001, 110_001}}, ask(20_000))
		issued := d.status("order").Issued
		require.EqualValues(t, 1+90_000+20_000, issued)
		d.store.Fail(segmenttest.ErrAway)
		dst := []segment.IDRange{{First: 7, Last: 7}}
		dst, err := d.NextRanges(t.Context(), []byte("order"), 4_000_000, dst)
		require.ErrorIs(t, err, segment.ErrUnavailable)
		require.Equal(t, []segment.IDRange{{7, 7}}, dst)

		d.store.Fail(nil)
		clocktest.Pass(10 * time.Second)
		d.store.Set("small", 7, 10)
		ids, err := d.ids("small", 100_000)
		require.NoError(t, err)
		for i, id := range ids {
			require.EqualValues(t, 7+i, id)
		}
		require.Less(t, d.store.Fetches("small"), 30, "the step grows with the demand")
	})
}

func TestHotPathAllocatesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Set("order", 0, math.MaxInt64/2)
		d.id("order")
		key, ctx, dst := []byte("order"), context.Background(), make([]segment.IDRange, 0, 4)
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			tag, err := d.Lookup(key)
			if err != nil {
				panic(err)
			}
			if _, err := tag.Next(ctx); err != nil {
				panic(err)
			}
			if _, n := tag.Try(100); n != 100 {
				panic(n)
			}
			if _, err := d.Next(ctx, key); err != nil {
				panic(err)
			}
			if _, err := d.NextRanges(ctx, key, 100, dst); err != nil {
				panic(err)
			}
		}))
		require.Equal(t, 1, d.store.Fetches("order"))
	})
}

// The end of the caller's context, of Config.Wait, and of the fetch itself.
func TestWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Set("order", 0, 100)
		d.store.Set("user", 0, 10)
		tag, err := d.Find(t.Context(), []byte("order"))
		require.NoError(t, err)
		release := d.store.Hang()
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 200)
		ask := func(ctx context.Context) { _, err := tag.Next(ctx); errs <- err }
		go ask(ctx)
		synctest.Wait()
		cancel()
		err = <-errs
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, segment.ErrUnavailable)
		go ask(ctx)
		require.ErrorIs(t, <-errs, context.Canceled)
		_, err = d.Find(ctx, []byte("absent"))
		require.ErrorIs(t, err, context.Canceled)

		for range 100 {
			go ask(t.Context())
		}
		clocktest.Pass(segment.DefaultWait - 1)
		require.Empty(t, errs)
		clocktest.Pass(1)
		for range 100 {
			err := <-errs
			require.ErrorIs(t, err, segment.ErrUnavailable)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
		}
		_, err = d.try("user")
		require.ErrorIs(t, err, segment.ErrUnavailable, "its name was not found in time")
		require.Equal(t, 1, d.store.Fetches("order"), "one fetch for all")
		clocktest.Pass(segment.DefaultFetchTimeout)
		require.True(t, d.troubled(segment.ErrStore, ""))
		require.ErrorIs(t, d.Troubles()[0].Err, segment.ErrLate)
		require.NotErrorIs(t, d.Troubles()[0].Err, context.DeadlineExceeded, "a request must not take it for its own")
		release()
		clocktest.Pass(time.Second)
		require.Zero(t, d.id("order"), "nothing was lost")

		// The budget is the request's, not the range's: each fetch takes 400 ms.
		d.store.Set("slow", 0, 10)
		_, err = d.Find(t.Context(), []byte("slow"))
		require.NoError(t, err)
		d.store.Delay(400*time.Millisecond, segmenttest.OpBegin)
		begun := time.Now()
		_, err = d.ids("slow", 10_000_000) // the first two have a million
		require.ErrorIs(t, err, segment.ErrUnavailable)
		require.Equal(t, segment.DefaultWait, time.Since(begun))
	})
}
