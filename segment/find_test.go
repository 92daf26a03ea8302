package segment_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
)

// A start reads nothing of the table, and memory has what is used.
func TestAStartReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		named(store, "tag", 100_000, 10)
		called := make(map[string]int)
		store.Before(func(_ context.Context, op segmenttest.Op, tags []string) error {
			called[fmt.Sprint(op, tags)]++
			return nil
		})
		d := newDaemon(t, func(d *daemon) { d.store = store })
		require.NoError(t, d.Ready())
		require.Equal(t, map[string]int{"find[]": 1}, called, "the ping: no row has the name \"\"")
		require.Zero(t, d.Len())
		d.id("tag-00007")
		require.Equal(t, 1, d.Len())
		require.Equal(t, 1, store.Calls(segmenttest.OpWarm), "the connection of the fetch is opened meanwhile")
	})
}

// One query for all that wait, 256 names at most, one at a time.
func TestLookUps(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		names := named(d.store, "tag", 1024, 1000)
		var mu sync.Mutex
		under, most, longest, finds := 0, 0, 0, 0
		d.store.Before(func(_ context.Context, op segmenttest.Op, tags []string) error {
			if op == segmenttest.OpFind {
				mu.Lock()
				under, finds = under+1, finds+1
				most, longest = max(most, under), max(longest, len(tags))
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				under--
				mu.Unlock()
			}
			return nil
		})
		require.Zero(t, d.each(append(names, names...)))
		require.Equal(t, []int{1, 256}, []int{most, longest})
		require.LessOrEqual(t, finds, 6)
		for _, bad := range []string{"", strings.Repeat("x", segment.MaxTagChars+1), strings.Repeat("😀", segment.MaxTagChars+1), "\xff"} {
			_, err := d.try(bad)
			require.ErrorIs(t, err, segment.ErrUnknownTag)
		}
		require.LessOrEqual(t, finds, 6, "no row can have these")
		wide := strings.Repeat("票", segment.MaxTagChars)
		d.store.Set(wide, 3, 10)
		require.EqualValues(t, 3, d.id(wide))
	})
}

// A name that was just made by SQL is served within a second beside 960 invented names in flight.
func TestNameMadeBySQL(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Delay(5*time.Millisecond, segmenttest.OpFind)
		stop, n := make(chan struct{}), 0
		var mu sync.Mutex
		var flood sync.WaitGroup
		for range 960 {
			flood.Go(func() {
				for {
					mu.Lock()
					n++
					name := fmt.Sprint("invented", n)
					mu.Unlock()
					_, _ = d.try(name)
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		time.Sleep(time.Second)
		_, err := d.try("order")
		require.ErrorIs(t, err, segment.ErrUnknownTag)
		d.store.Set("order", 0, 10)
		d.served("order", time.Second)
		close(stop)
		flood.Wait()
		begun := d.store.Calls(segmenttest.OpFind)
		for range 100 {
			_, err = d.try("absent")
			require.ErrorIs(t, err, segment.ErrUnknownTag)
		}
		require.Equal(t, 1, d.store.Calls(segmenttest.OpFind)-begun, "not looked up again for a second")
	})
}

// Names that have no row are remembered up to a bound, and a name that waits too long is 503.
func TestLookUpsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		for i := range 66_000 {
			_, _ = d.try(fmt.Sprint("invented", i))
		}
		require.LessOrEqual(t, segment.Absent(d.Service), 65_536)
		clocktest.Pass(2 * time.Second)
		_, err := d.try("one more")
		require.ErrorIs(t, err, segment.ErrUnknownTag)
		require.Equal(t, 1, segment.Absent(d.Service))

		release := d.store.Hang()
		var all sync.WaitGroup
		for i := range 17_000 {
			all.Go(func() { _, _ = d.try(fmt.Sprint("waiting", i)) })
		}
		synctest.Wait()
		_, err = d.try("too many")
		require.ErrorContains(t, err, "too many")
		all.Wait()
		release()
	})
}

// deleted without a mark: what is in memory is served to its end, then 404; back: served on.
func TestRowGone(t *testing.T) {
	for name, c := range map[string]struct {
		options []option
		gone    func(d *daemon)
		back    func(d *daemon)
		most    bool // ErrRowsMissing
	}{
		"one row":         {nil, func(d *daemon) { d.store.Remove("order") }, func(d *daemon) { d.store.Set("order", 1000, 10) }, false},
		"TRUNCATE":        {nil, func(d *daemon) { d.store.Clear() }, func(d *daemon) { d.store.Set("order", 1000, 10) }, true},
		"a swapped table": {[]option{guarded}, func(d *daemon) { d.store.Use(segmenttest.NewStore()) }, func(d *daemon) { d.store.Use(d.store) }, true},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon(t, c.options...)
			d.store.Set("order", 0, 100)
			for _, tag := range named(d.store, "tag", 3, 100) {
				d.draw(tag, 1)
			}
			d.draw("order", 30)
			clocktest.Pass(time.Second)
			c.gone(d)
			clocktest.Pass(15 * time.Second)
			require.True(t, d.troubled(segment.ErrRowMissing, "order"))
			require.Equal(t, c.most, d.troubled(segment.ErrRowsMissing, ""))
			require.Equal(t, "no_row", d.status("order").Failing)
			d.draw("order", d.left("order"))
			begun := d.store.Calls()
			for range 50 {
				_, err := d.try("order")
				require.ErrorIs(t, err, segment.ErrUnknownTag)
			}
			require.LessOrEqual(t, d.store.Calls()-begun, 2+1)
			require.NoError(t, d.Ready())
			require.Empty(t, d.of(segment.KindTagRemoved))
			c.back(d)
			d.served("order", 1100*time.Millisecond)
			clocktest.Pass(11 * time.Second)
			require.False(t, d.troubled(segment.ErrRowMissing, "order"))
		})
	}
}

// A fetch, too, finds that the row is gone; and once the row is back the next range is fetched without a request.
func TestFetchFindsNoRow(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Set("order", 0, 100)
		d.id("order")
		d.store.Remove("order")
		d.draw("order", 50)
		synctest.Wait()
		require.True(t, d.troubled(segment.ErrRowMissing, "order"))
		d.store.Set("order", 100, 100)
		clocktest.Pass(11 * time.Second)
		require.Empty(t, d.Troubles())
		require.True(t, d.status("order").Next.Ready)
	})
}

// With a deletion mark the tag is gone at once, found by a look or by a fetch.
func TestRowDeleted(t *testing.T) {
	for _, guard := range []bool{true, false} {
		for _, byFetch := range []bool{true, false} {
			clocktest.Run(t, fmt.Sprint(guard, byFetch), func(t *testing.T) {
				var options []option
				if guard {
					options = append(options, guarded)
				}
				d := newDaemon(t, options...)
				d.store.Set("order", 0, 100)
				d.id("order")
				table := &segment.Table{Admin: d.store, Marks: d.marks, Alone: true, Patience: time.Second}
				if guard { // by another daemon, with marks of its own
					table.Guard, table.Marks = d.guard.Beside(), newMarks(t)
				}
				_, err := table.Delete(t.Context(), "order")
				require.NoError(t, err)
				if byFetch {
					d.draw("order", 50)
				}
				clocktest.Pass(11 * time.Second)
				_, err = d.Lookup([]byte("order"))
				require.ErrorIs(t, err, segment.ErrUnknownTag)
				require.Len(t, d.of(segment.KindTagRemoved), 1)
				require.Empty(t, d.Troubles())
				_, err = d.try("order")
				require.ErrorIs(t, err, segment.ErrUnknownTag)
			})
		}
	}
}

// A tag that is deleted while its range is fetched: the range is not used, and the one that is made again begins above it.
func TestDeletedWhileFetching(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Set("order", 0, 10)
		d.marks.Delay(time.Second, segmenttest.OpRaise)
		errs := make(chan error)
		go func() { _, err := d.try("order"); errs <- err }()
		time.Sleep(500 * time.Millisecond)
		table := &segment.Table{Admin: d.store, Guard: d.guard, Patience: time.Second, Service: d.Service}
		tag, err := d.Lookup([]byte("order"))
		require.NoError(t, err)
		_, err = table.Delete(t.Context(), "order")
		require.NoError(t, err)
		require.ErrorIs(t, <-errs, segment.ErrUnknownTag)
		d.marks.Delay(0)
		row, err := table.Create(t.Context(), segment.Row{Tag: "order", Step: 10}, nil)
		require.NoError(t, err)
		require.EqualValues(t, 10, row.MaxID)
		clocktest.Pass(2 * time.Second)
		require.EqualValues(t, 10, d.id("order"), "made by ourselves: at once")
		_, n := tag.Try(1)
		require.Zero(t, n, "the one that was deleted stays so")
	}, guarded)
}

// A look asks for all tags in memory in turn, 256 at most.
func TestLooksTakeTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		names := named(d.store, "tag", 600, 100)
		require.Zero(t, d.each(names))
		for _, name := range names {
			d.store.Edit(name, func(r *segment.Row) { r.Step = 200 })
		}
		begun := d.store.Calls(segmenttest.OpFind)
		clocktest.Pass(30 * time.Second)
		changed := d.of(segment.KindTagChanged)
		require.Len(t, changed, 600)
		require.Equal(t, []int64{100, 200}, []int64{changed[0].OldStep, changed[0].NewStep})
		require.Equal(t, 3, d.store.Calls(segmenttest.OpFind)-begun)
		d.store.Clear()
		clocktest.Pass(31 * time.Second)
		all := d.Troubles()
		require.Len(t, all, 12, "ten tags by name, the rest counted, and that it is most")
	})
}

// Page goes through the tags in memory by name.
func TestPage(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		names := named(d.store, "Tag", 50, 100)
		require.Zero(t, d.each(names))
		var seen []string
		for after, more := "", 1; more > 0; {
			var page []*segment.Tag
			page, more = d.Page(after, "tAG-0", 7)
			require.Equal(t, 50-len(seen)-len(page), more)
			for _, tag := range page {
				seen = append(seen, tag.Name())
			}
			after = seen[len(seen)-1]
		}
		require.Equal(t, names, seen)
		page, more := d.Page("", "00012", 7)
		require.Len(t, page, 1)
		require.Zero(t, more)
		require.Equal(t, 50, d.Len())
		n := 0
		for range d.Used {
			if n++; n == 7 {
				break
			}
		}
		require.Equal(t, 7, n)
	})
}
