package segment_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
)

// toNextFetch uses IDs up to the refill mark of the range after the current
// one and returns the size of the range that this made the tag fetch.
func (d *daemon) toNextFetch(tag string) int64 {
	d.t.Helper()
	st := d.status(tag)
	d.draw(tag, int(st.Current.Hi-st.Current.Position))
	d.draw(tag, int((st.Next.Size()-1)/10+1))
	synctest.Wait()
	now := d.status(tag)
	require.Equal(d.t, st.Next.Lo, now.Current.Lo)
	require.True(d.t, now.Next.Ready && !now.Fetching)
	return now.Next.Size()
}

func TestDynamicStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const short, middle, long = 14 * time.Minute, 20 * time.Minute, 31 * time.Minute
		d := newDaemon(t)
		d.store.Set("order", 0, 100_000)
		d.draw("order", 10_000)
		synctest.Wait()
		require.EqualValues(t, 100_000, d.status("order").Next.Size(), "the second fetch is too early to tell anything")
		for i, step := range []struct {
			lasted      time.Duration
			table, want int64
		}{
			{short, 100_000, 200_000},
			{short, 100_000, 400_000},
			{middle, 100_000, 400_000},
			{15 * time.Minute, 100_000, 400_000}, // neither shorter …
			{30 * time.Minute, 100_000, 400_000}, // … nor longer
			{15*time.Minute - 1, 100_000, 800_000},
			{short, 100_000, 1_000_000}, // more than 30 minutes use
			{middle, 100_000, 1_000_000},
			{30*time.Minute + 1, 100_000, 500_000},
			{long, 100_000, 250_000},
			{long, 100_000, 125_000},
			{long, 100_000, 100_000}, // the table's own
			{long, 100_000, 100_000},
			{middle, 300_000, 300_000},     // follows the table …
			{middle, 30_000, 30_000},       // … both ways
			{short, 30_000, 60_000},        //
			{middle, 5_000_000, 5_000_000}, // a table step over the limit is kept
		} {
			row, _ := d.store.Row("order")
			d.store.Set("order", row.MaxID, step.table)
			clocktest.Pass(step.lasted)
			require.Equal(t, step.want, d.toNextFetch("order"), "fetch %d", i)
			st := d.status("order")
			require.Equal(t, []int64{step.want, step.table}, []int64{st.Step, st.TableStep})
			require.Equal(t, d.clock.Millis(), st.LastFetch)
		}
	})
}

// Ranges that last 15 minutes at 20,000 IDs a second; a tag that is used less has a million at most, any 10^8.
func TestRangesAtARate(t *testing.T) {
	for rate, most := range map[int]int64{20_000: 36_000_000, 100: 1_000_000, 1_000_000: 100_000_000} {
		clocktest.Run(t, fmt.Sprint(rate), func(t *testing.T) {
			d := newDaemon(t)
			d.store.Set("order", 0, 1000)
			var largest int64
			for range 4 * 3600 / 10 {
				d.draw("order", 10*rate)
				time.Sleep(10 * time.Second)
				largest = max(largest, d.status("order").Current.Size())
			}
			require.LessOrEqual(t, largest, most)
			if rate == 20_000 {
				require.GreaterOrEqual(t, largest, int64(rate*15*60))
			}
			if rate == 1_000_000 {
				require.Equal(t, most, largest)
			}
		})
	}
}

// The time that the database is gone says nothing about the demand.
func TestOutageIsNotALongSegment(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Set("order", 0, 100)
		d.id("order")
		d.draw("order", 20)
		synctest.Wait()
		clocktest.Pass(time.Minute)
		d.store.Fail(segmenttest.ErrAway)
		d.draw("order", 100)
		clocktest.Pass(time.Hour)
		d.store.Fail(nil)
		clocktest.Pass(time.Minute + time.Second)
		require.EqualValues(t, 200, d.status("order").Next.Size())
	})
}

// A fetch asks for what waits when it begins, several times
// over, within the limit, and for nothing that is no longer wanted.
func TestFetchAsksForWhatWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		step       int64
		callers, n int
		giveUp     bool
		want       int64
	}{
		"one for one":            {100, 1, 1, false, 100},
		"one for many":           {100, 1, 1000, false, 4000},
		"many":                   {100, 20, 1000, false, 80_000},
		"given up":               {100, 20, 1000, true, 100},
		"the limit":              {100, 300, 1000, false, 1_000_000},
		"the limit of the table": {2_000_000, 300, 10_000, false, 2_000_000},
		"near the end of int64":  {math.MaxInt64 / 3, 20, 1000, false, math.MaxInt64 / 3},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon(t, with(func(c *segment.Config) { c.FetchTimeout = time.Hour }))
			d.store.Set("order", 0, tc.step)
			_, err := d.Find(t.Context(), []byte("order"))
			require.NoError(t, err)
			busy := named(d.store, "busy", 8, 10)
			release := d.store.Hang(segmenttest.OpBegin)
			var all sync.WaitGroup
			for _, name := range busy { // every fetcher has one
				all.Go(func() { _, _ = d.try(name) })
				synctest.Wait()
			}
			ctx, cancel := context.WithCancel(t.Context())
			for range tc.callers {
				all.Go(func() { _, _ = d.NextRanges(ctx, []byte("order"), tc.n, nil) })
			}
			synctest.Wait()
			if tc.giveUp {
				cancel()
				synctest.Wait()
			}
			var first atomic.Int64
			d.store.After(func(_ context.Context, op segmenttest.Op, _ []string) error {
				if row, _ := d.store.Row("order"); op == segmenttest.OpCommit {
					first.CompareAndSwap(0, row.MaxID)
				}
				return nil
			})
			release()
			all.Wait()
			synctest.Wait()
			require.Equal(t, tc.want, first.Load())
			cancel()
		})
	}
}

// Rate is an average of 30 seconds, reckoned when it is asked for; Issued never falls, not where a batch fails or a tag is deleted.
func TestFigures(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Set("order", 0, 1_000_000)
		pass := func(n, seconds int) (st segment.Status) {
			for range seconds {
				d.draw("order", n)
				time.Sleep(time.Second)
				st = d.status("order")
			}
			return st
		}
		st := pass(100, 1)
		require.InDelta(t, 100, st.Rate, 1e-9, "no climbing from 0")
		require.InDelta(t, float64(st.Current.Hi-st.Current.Position+st.Next.Size())/100, *st.Remaining, 1e-6)
		require.InDelta(t, 1000-900*0.3679, pass(1000, 30).Rate, 1, "1/e of the difference is left after the time constant")
		require.InDelta(t, 1000, pass(1000, 300).Rate, 1)
		d.draw("order", 30*100)
		clocktest.Pass(30 * time.Second)
		require.InDelta(t, 100+900*0.3679, d.status("order").Rate, 1, "the same, however seldom it is asked for")
		st = pass(0, 600)
		require.Zero(t, st.Rate)
		require.Nil(t, st.Remaining)
		require.EqualValues(t, 100+30_000+300_000+3000, st.Issued)

		d.store.Fail(segmenttest.ErrAway)
		_, err := d.ids("order", 100_000_000)
		require.ErrorIs(t, err, segment.ErrUnavailable)
		issued := d.status("order").Issued
		require.GreaterOrEqual(t, issued, st.Issued)
		d.store.Fail(nil)
		clocktest.Pass(time.Minute)
		tag, err := d.Lookup([]byte("order"))
		require.NoError(t, err)
		row, _ := d.store.Row("order")
		table := &segment.Table{Admin: d.store, Marks: d.marks, Alone: true, Service: d.Service}
		_, err = table.Delete(t.Context(), "order")
		require.NoError(t, err)
		issued = max(issued, tag.Status().Issued)
		_, n := tag.Try(1)
		require.Zero(t, n)
		_, err = tag.Next(t.Context())
		require.ErrorIs(t, err, segment.ErrUnknownTag)
		_, err = table.Create(t.Context(), segment.Row{Tag: "order", Step: 10}, nil)
		require.NoError(t, err)
		require.GreaterOrEqual(t, d.id("order"), row.MaxID)
		require.Equal(t, issued+1, d.status("order").Issued)
		require.Equal(t, issued, tag.Status().Issued)
	})
}

// Of a range that is closed while it is handed out every offset is counted by
// close, or belongs to no caller.
func TestClosedSpan(t *testing.T) {
	for name, r := range map[string]segment.Range{"small": {Lo: 5, Hi: 5000}, "as large as can be": {Lo: 0, Hi: math.MaxInt64}} {
		t.Run(name, func(t *testing.T) {
			for range 50 {
				s := segment.NewSpan(r)
				var got [4]int64
				var takers sync.WaitGroup
				begun := make(chan struct{}, len(got))
				for i := range got {
					takers.Go(func() {
						for j := 0; ; j++ {
							_, n := s.Take(3)
							if got[i] += int64(n); n == 0 {
								break
							}
							if j == 50 {
								begun <- struct{}{}
							}
						}
						if len(begun) == 0 {
							begun <- struct{}{}
						}
					})
				}
				<-begun
				closed := s.Close()
				takers.Wait()
				require.Equal(t, closed, got[0]+got[1]+got[2]+got[3])
			}
		})
	}
}

// What a row and a change may be; what they may not is refused by every store of test/storetest.
func TestCheckRow(t *testing.T) {
	require.NoError(t, segment.CheckRow(segment.Row{Tag: "票", Step: 10, MaxID: math.MaxInt64 - 10}))
	step, high := int64(5), int64(7)
	require.NoError(t, segment.CheckChange(-1, segment.Change{Step: &step}), "a max_id below 0 is no reason against it")
	require.Equal(t, segment.Row{Tag: "a", Step: 5, MaxID: 7}, segment.Row{Tag: "a", Step: 1}.Changed(segment.Change{Step: &step, MaxID: &high}))
	for r, shown := range map[rune]bool{'a': false, '票': false, '\n': true, '\u202e': true, '\u200b': true, '\ue000': true, '\u2028': true} {
		require.Equal(t, shown, segment.Hidden(r), "%q", r)
	}
}
