package segment_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
)

// The steps of a fetch.
var steps = []segmenttest.Op{
	segmenttest.OpBegin, segmenttest.OpRead, segmenttest.OpMove, segmenttest.OpWrite, segmenttest.OpCommit, segmenttest.OpRaise,
}

// lock-then-high: V1's order, with the round trips that it takes; the high mark is read only where it isn't known.
func TestOrderOfAFetch(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Set("order", 5, 10)
		called := record(d, steps...)
		require.EqualValues(t, 5, d.id("order"))
		first := []string{"begin order", "read order", "move order", "write order", "commit order", "raise order"}
		known := []string{"begin order", "move order", "write order", "commit order", "raise order"}
		require.Equal(t, append(first, known...), called.take(), "a tenth of ten is the first ID")
		d.draw("order", 10)
		require.Equal(t, known, called.take())

		d.guard.WriteRoot() // what is known is dropped, and the fetch made once more
		clocktest.Pass(11 * time.Second)
		called.take()
		d.drain("order")
		require.Equal(t, first, called.take()[:len(first)])
		d.store.Edit("order", func(r *segment.Row) { r.MaxID += 100 }) // nor is it known where max_id is another
		d.drain("order")
		require.Equal(t, first, called.take()[:len(first)])
		require.Zero(t, d.store.Calls(segmenttest.OpRollback), "nothing travels beside a COMMIT")
		h := d.guard.Mark("order")
		require.Equal(t, "a/1", h.By)
		require.Equal(t, "a", segment.NodeOf(h.By))
		require.Less(t, h.Seen, h.High)
		require.Equal(t, "a", d.status("order").FetchedBy)
		require.Equal(t, d.status("order").LastFetch, d.status("order").FetchedAt)
	}, guarded)
}

// Each step fails, hangs, has its answer lost, or is carried out late, while another daemon fetches: a gap, never a repeat.
func TestEachStepFails(t *testing.T) {
	for _, step := range steps {
		for how, fault := range map[string]func(d *daemon) (over func()){
			"fails": func(d *daemon) func() {
				d.store.FailNext(1, segmenttest.ErrAway, step)
				d.marks.FailNext(1, errBoom, step)
				d.guard.FailNext(1, errBoom, step)
				return func() {}
			},
			"hangs": func(d *daemon) func() {
				a, b, c := d.store.Hang(step), d.marks.Hang(step), d.guard.Hang(step)
				return func() { a(); b(); c() }
			},
			"is done, its answer lost": func(d *daemon) func() { return once(step, errBoom, d.store.After, d.marks.After, d.guard.After) },
			"is late": func(d *daemon) func() {
				over := once(step, segmenttest.ErrLate, d.store.Before, d.marks.Before, d.guard.Before)
				return func() { over(); d.store.Deliver(); d.marks.Deliver(); d.guard.Deliver() }
			},
		} {
			if how == "is late" && step != segmenttest.OpCommit && step != segmenttest.OpWrite {
				continue
			}
			clocktest.Run(t, fmt.Sprintf("%s %s", step, how), func(t *testing.T) {
				a := newDaemon(t, required)
				a.store.Set("order", 1, 7)
				b := a.beside()
				var check checker
				use := func(d *daemon, n int) {
					for range n {
						if ids, err := d.ids("order", 3); err == nil {
							check.add(d.name, "order", ids...)
						}
					}
				}
				for range 3 {
					use(b, 5)
					over := fault(a)
					use(a, 5)
					use(b, 5)
					over()
					use(b, 5)
					use(a, 5)
					time.Sleep(12 * time.Second)
					a.served("order", time.Second)
					b.served("order", time.Second)
				}
				require.Empty(t, check.twice)
				require.Greater(t, len(check.seen), 100)
				for _, d := range []*daemon{a, b} {
					require.Empty(t, d.of(segment.KindMoved), "a gap is no loss of the table")
				}
			})
		}
	}
}

// once has the next call of step end with err.
func once(step segmenttest.Op, err error, hooks ...func(segmenttest.Hook)) (over func()) {
	var done atomic.Bool
	for _, set := range hooks {
		set(func(_ context.Context, op segmenttest.Op, _ []string) error {
			if op != step || done.Swap(true) {
				return nil
			}
			return err
		})
	}
	return func() {
		for _, set := range hooks {
			set(nil)
		}
	}
}

// committed-alone and marks-before-use: a range is used by no request before COMMIT and the mark have their OK.
func TestNothingIsUsedBeforeItIsOurs(t *testing.T) {
	for _, step := range []segmenttest.Op{segmenttest.OpWrite, segmenttest.OpCommit, segmenttest.OpRaise} {
		clocktest.Run(t, string(step), func(t *testing.T) {
			d := newDaemon(t, required)
			d.store.Set("order", 0, 10)
			over := once(step, errBoom, d.store.After, d.marks.After, d.guard.After)
			d.served("order", 3*time.Second)
			over()
			require.GreaterOrEqual(t, d.id("order"), int64(10), "the first range is a gap")
		})
	}
}

// conditional-update: behind a multiplexer that lost autocommit=0 no row lock keeps two daemons apart.
func TestConditionalUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newDaemon(t)
		a.store.Set("order", 0, 5)
		a.store.Unlock()
		b := a.beside()
		a.store.Delay(time.Millisecond)
		b.store.Delay(time.Millisecond)
		check := atOnce(a, b)
		require.Empty(t, check.twice)
		require.Greater(t, len(check.seen), 100)
	})
}

// atOnce has each of daemons asked 200 times, at the same moments.
func atOnce(daemons ...*daemon) *checker {
	check := &checker{}
	for range 200 {
		for _, d := range daemons {
			go func() {
				if id, err := d.try("order"); err == nil {
					check.add(d.name, "order", id)
				}
			}()
		}
		time.Sleep(5 * time.Millisecond)
	}
	clocktest.Pass(time.Second)
	return check
}

// high-mark-decides: two databases that know nothing of each other, under one guard.
func TestTwoTablesOneGuard(t *testing.T) {
	for _, agrees := range []bool{false, true} {
		clocktest.Run(t, fmt.Sprint(agrees), func(t *testing.T) {
			a := newDaemon(t, required)
			if agrees { // shows that the checker sees it
				a.guard.Agree()
			}
			a.store.Set("order", 0, 5)
			b := a.beside(func(d *daemon) { d.store = segmenttest.NewStore(); d.store.Set("order", 0, 5) })
			a.guard.Delay(time.Millisecond)
			b.guard.Delay(time.Millisecond)
			check := atOnce(a, b)
			require.Equal(t, agrees, len(check.twice) > 0)
			require.Greater(t, len(check.seen), 100)
			if !agrees {
				require.Positive(t, a.Guard().Conflicts+b.Guard().Conflicts)
			}
		})
	}
}

// A batch is all that wait, in one transaction.
func TestBatches(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		names := named(d.store, "tag", 2000, 1000)
		d.store.Delay(2 * time.Millisecond)
		d.guard.Delay(2 * time.Millisecond)
		d.marks.Delay(2 * time.Millisecond)
		begun := time.Now()
		require.Zero(t, d.each(names))
		require.Less(t, time.Since(begun), time.Second)
		require.Less(t, d.store.Calls(segmenttest.OpBegin), 80)
		require.Less(t, d.store.Calls(segmenttest.OpFind), 12)
		require.Less(t, d.guard.Calls(segmenttest.OpWrite), 80)
		require.Less(t, d.marks.Calls(segmenttest.OpRaise), 80)
		for _, name := range names {
			require.EqualValues(t, 1000, d.guard.Mark(name).High)
			require.EqualValues(t, 1000, d.marks.Mark(name).High)
		}
	}, guarded)
}

// hold locks rows as a transaction does that was forgotten.
func hold(t *testing.T, store *segmenttest.Store, names []string) (free func()) {
	t.Helper()
	tx, err := store.Beside().Begin(t.Context(), names)
	require.NoError(t, err)
	return func() { tx.Rollback(context.Background()) }
}

// Rows that another transaction holds are skipped, and keep no other tag from its range.
func TestLockedRows(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		locked, free := named(d.store, "locked", 40, 10), named(d.store, "tag", 40, 10)
		release := hold(t, d.store, locked)
		refused := make(chan int)
		go func() { refused <- d.each(locked) }()
		go func() { refused <- d.each(free) }()
		require.Zero(t, <-refused, "those that are free")
		require.Equal(t, 40, <-refused)
		clocktest.Pass(30 * time.Second)
		for range 10 { // asked for all the time
			go d.each(locked)
			require.Zero(t, d.each(named(d.store, fmt.Sprint("more", time.Now().UnixMilli()), 40, 10)))
			time.Sleep(time.Second)
		}
		require.True(t, d.troubled(segment.ErrLocked, "") && !d.troubled(segment.ErrStore, ""))
		release()
		clocktest.Pass(5 * time.Second)
		require.Zero(t, d.each(locked))
	})
}

// Many daemons restart at once: a row that was skipped is tried for in the next batch before it is waited for.
func TestManyDaemonsOnManyTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newDaemon(t, guarded)
		names := named(first.store, "tag", 500, 1000)
		all := []*daemon{first}
		for range 4 {
			all = append(all, first.beside())
		}
		refused := make(chan int)
		for _, d := range all {
			d.store.Delay(time.Millisecond)
			d.guard.Delay(time.Millisecond)
			go func() { refused <- d.each(names) }()
		}
		for range all {
			require.Zero(t, <-refused)
		}
	})
}

// A server that doesn't know SKIP LOCKED, and tags with trouble in a batch: each is fetched for alone.
func TestAlone(t *testing.T) {
	for name, c := range map[string]struct {
		fault   func(d *daemon)
		refused int
		is      error // of the tag bad
	}{
		"no SKIP LOCKED": {fault: func(d *daemon) { d.store.NoSkip() }},
		"a row twice":    {func(d *daemon) { d.store.Twice("bad") }, 1, segment.ErrBadRow},
		"step 0":         {func(d *daemon) { d.store.Set("bad", 0, 0) }, 1, segment.ErrBadRow},
		"max_id below 0": {func(d *daemon) { d.store.Set("bad", -1, 10) }, 1, segment.ErrBadRow},
		"end of int64":   {func(d *daemon) { d.store.Set("bad", math.MaxInt64-5, 10) }, 1, segment.ErrBadRow},
		"end of column":  {func(d *daemon) { d.store.Set("bad", 995, 10); d.store.Column(1000) }, 1, segment.ErrBadRow},
		"mark refused":   {func(d *daemon) { d.guard.Refuse("bad", true) }, 1, segment.ErrGuardRefused},
		"mark damaged":   {func(d *daemon) { d.guard.Damage("bad", true) }, 1, segment.ErrGuardRefused},
		"unknown error":  {func(d *daemon) { d.store.Before(failing("bad", errBoom)) }, 1, segment.ErrFetch},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon(t, guarded)
			names := append(named(d.store, "tag", 100, 10), "bad")
			d.store.Set("bad", 0, 10)
			c.fault(d)
			require.Equal(t, c.refused, d.each(names))
			require.Equal(t, c.refused == 1, d.troubled(c.is, "bad"))
			require.Less(t, d.store.Calls(segmenttest.OpBegin), 450, "each tag alone, and once more for its next range")
			clocktest.Pass(time.Second)
			begun := d.store.Calls(segmenttest.OpBegin)
			clocktest.Pass(10 * time.Minute)
			require.Less(t, d.store.Calls(segmenttest.OpBegin)-begun, 20, "an unused tag costs no statements")
			_, err := d.try("bad")
			require.Equal(t, c.refused == 1, errors.Is(err, segment.ErrUnavailable))
		})
	}
}

// failing fails transactions that have tag, at their UPDATE.
func failing(tag string, err error) segmenttest.Hook {
	return func(_ context.Context, op segmenttest.Op, tags []string) error {
		for _, of := range tags {
			if op == segmenttest.OpMove && of == tag {
				return err
			}
		}
		return nil
	}
}

// A high mark that others write again and again: tried again at once a few times, and then later.
func TestConflictsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Set("order", 0, 10)
		other := d.guard.Beside()
		d.guard.Before(func(ctx context.Context, op segmenttest.Op, _ []string) error {
			if op == segmenttest.OpWrite {
				at, err := other.Open(ctx)
				require.NoError(t, err)
				h := other.Mark("order")
				require.NoError(t, other.Write(ctx, at, []segment.HighMark{h}))
			}
			return nil
		})
		_, err := d.try("order")
		require.ErrorIs(t, err, segment.ErrGuardConflict)
		require.Less(t, d.store.Calls(segmenttest.OpBegin), 20)
		d.guard.Before(nil)
		d.served("order", time.Second)
	}, guarded)
}

// moved-forward, told where the same server has shown more before, and not where a crash or another server explains it.
func TestRegressionsAndGaps(t *testing.T) {
	for name, c := range map[string]struct {
		options []option
		between func(d *daemon)
		told    bool
	}{
		"set back, by the mark here":  {nil, func(d *daemon) { d.store.Set("order", 0, 10) }, true},
		"set back, by the guard":      {[]option{guarded}, func(d *daemon) { d.store.Set("order", 0, 10); d.marks = segmenttest.NewHighWater() }, true},
		"as it was, by the mark here": {nil, func(*daemon) {}, false},
		"as it was, by the guard":     {[]option{guarded}, func(*daemon) {}, false},
		"another server":              {nil, func(d *daemon) { other := d.store.Copy("b"); other.Set("order", 0, 10); d.store.Use(other) }, false},
		"another server, guarded":     {[]option{guarded}, func(d *daemon) { other := d.store.Copy("b"); other.Set("order", 0, 10); d.store.Use(other) }, false},
		"a COMMIT that failed, after high": {[]option{guarded}, func(d *daemon) {
			over := once(segmenttest.OpCommit, errBoom, d.store.Before)
			d.draw("order", 25)
			over()
		}, false},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon(t, c.options...)
			d.store.Set("order", 0, 10)
			d.draw("order", 95)
			highest := d.id("order")
			synctest.Wait()
			c.between(d)
			d = d.again(func(again *daemon) { again.marks = d.marks })
			require.Greater(t, d.id("order"), highest)
			require.Equal(t, c.told, len(d.of(segment.KindMoved)) > 0)
			row, _ := d.store.Row("order")
			if c.told {
				e := d.of(segment.KindMoved)[0]
				require.Equal(t, e.High, e.Count, "max_id was 0")
				require.Greater(t, row.MaxID, highest, "max_id is left at the end of the range")
			}
		})
	}
}

// A fetch that meets another server says so.
func TestServerChanged(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Set("order", 0, 10)
		d.id("order")
		require.Empty(t, d.of(segment.KindServer))
		replica := d.store.Copy("db2:3306/2")
		d.store.Use(replica)
		d.draw("order", 30)
		e := d.of(segment.KindServer)
		require.Len(t, e, 1)
		require.Equal(t, "db1:3306/1 db2:3306/2", e[0].Was+" "+e[0].Now)
	}, guarded, func(d *daemon) { d.store = segmenttest.NewStore().Copy("db1:3306/1") })
}

// V4: ranges that no high mark covers are counted once a fetch; two in an hour are a trouble.
func TestForeignFetches(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Set("order", 500, 10) // before there was a high mark
		java := func() { d.store.Edit("order", func(r *segment.Row) { r.MaxID += 10 }) }
		d.drain("order")
		require.Empty(t, d.Troubles())
		java()
		d.drain("order")
		require.Empty(t, d.Troubles(), "once")
		clocktest.Pass(59 * time.Minute)
		java()
		over := once(segmenttest.OpWrite, segment.ErrGuardConflict, d.guard.Before) // the fetch is made again
		d.drain("order")
		over()
		require.True(t, d.troubled(segment.ErrForeign, "order"))
		require.ErrorContains(t, d.Troubles()[0].Err, "2 so far")
		clocktest.Pass(2 * time.Minute)
		require.Empty(t, d.Troubles())
		clocktest.Pass(2 * time.Hour)
		java()
		d.drain("order")
		require.Empty(t, d.Troubles(), "one in an hour")
	}, guarded)
}

// A column near its end gets ranges of the table's own step, to the last.
func TestColumnNearItsEnd(t *testing.T) {
	const most = math.MaxInt32
	for name, begin := range map[string]func(d *daemon){
		"INT":    func(d *daemon) { d.store.Column(most); d.store.Set("order", most-1000, 10) },
		"BIGINT": func(d *daemon) { d.store.Set("order", math.MaxInt64-1000, 10) },
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon(t, guarded)
			begin(d)
			for range 10 {
				d.draw("order", 99)
			}
			synctest.Wait()
			last := d.id("order")
			for range 100 {
				id, err := d.try("order")
				if err != nil {
					require.ErrorIs(t, err, segment.ErrBadRow)
					break
				}
				require.Greater(t, id, last)
				last = id
			}
			end := int64(most)
			if name == "BIGINT" {
				end = math.MaxInt64
			}
			require.Greater(t, last, end-12)
			require.True(t, d.troubled(segment.ErrBadRow, "order"))
		})
	}
}

// A disk that is full: nothing is fetched, one range is lost, and all is well once it has room.
func TestMarksCantBeWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Set("order", 0, 10)
		d.store.Set("user", 0, 10)
		d.id("user")
		clocktest.Pass(time.Second)
		d.marks.Fail(errBoom, segmenttest.OpRaise)
		_, err := d.try("order")
		require.ErrorIs(t, err, segment.ErrMark)
		for range 50 {
			_, _ = d.try("order")
			time.Sleep(time.Second)
		}
		row, _ := d.store.Row("order")
		require.EqualValues(t, 10, row.MaxID)
		require.True(t, d.troubled(segment.ErrMark, ""))
		require.Less(t, d.marks.Calls(segmenttest.OpRaise), 300)
		d.draw("user", 10) // what is in memory is served
		d.marks.Fail(nil)
		d.served("order", time.Second)
		require.Empty(t, d.Troubles())
	}, guarded)
}
