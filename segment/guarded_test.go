package segment_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
)

// guard-away: prefer goes on by the marks after a moment, require refuses at once; what no request waits for is put off.
func TestGuardAway(t *testing.T) {
	for name, away := range map[string]func(d *daemon) (back func()){
		"broken": func(d *daemon) func() { d.guard.Break(); return d.guard.Connect },
		"hung":   func(d *daemon) func() { return d.guard.Hang() },
		"no root": func(d *daemon) func() {
			d.guard.NoRoot(true)
			return func() { d.guard.NoRoot(false) }
		},
		"another cluster's root": func(d *daemon) func() {
			d.guard.SetCluster("another")
			return func() { d.guard.SetCluster("segmenttest") }
		},
		"reads, and takes no write": func(d *daemon) func() {
			d.guard.Fail(errBoom, segmenttest.OpWrite)
			return func() { d.guard.Fail(nil) }
		},
	} {
		for _, required := range []bool{false, true} {
			clocktest.Run(t, fmt.Sprintf("%s, require %v", name, required), func(t *testing.T) {
				d := newDaemon(t, guarded, with(func(c *segment.Config) { c.GuardRequired = required }))
				d.store.Set("order", 0, 100)
				d.store.Set("ahead", 0, 100)
				d.id("ahead")
				d.id("order")
				before := d.guard.Mark("order")
				back := away(d)
				clocktest.Pass(12 * time.Second) // the root is read meanwhile
				d.draw("order", d.left("order"))
				row, _ := d.store.Row("order")
				for range 30 {
					_, _ = d.try("order")
					time.Sleep(100 * time.Millisecond)
				}
				if _, err := d.ids("order", 1000); required {
					require.ErrorIs(t, err, segment.ErrGuardAway)
					require.True(t, d.troubled(segment.ErrGuardAway, ""))
					require.Zero(t, d.Guard().Unguarded)
				} else {
					require.NoError(t, err)
					require.True(t, d.troubled(segment.ErrUnguarded, ""))
					require.Positive(t, d.Guard().Unguarded)
					require.True(t, d.marks.Mark("order").Behind)
				}
				require.Equal(t, before.Version, d.guard.Mark("order").Version, "nothing is written there")
				begun := d.store.Calls()
				for range 300 {
					_, _ = d.ids("order", 1000)
					time.Sleep(100 * time.Millisecond)
				}
				require.Less(t, d.store.Calls()-begun, 3000)
				after, _ := d.store.Row("order")
				require.Less(t, after.MaxID-row.MaxID, int64(2_000_000), "the fetches that it lets down are few")
				back()
				clocktest.Pass(12 * time.Second)
				d.drain("order")
				clocktest.Pass(12 * time.Second)
				require.Empty(t, d.Troubles())
				require.True(t, d.Guard().Guarded)
				m := d.marks.Mark("order")
				require.False(t, m.Behind)
				require.GreaterOrEqual(t, d.guard.Mark("order").High, m.High)
			})
		}
	}
}

// A restart of the guard costs no unguarded fetch where no request waits.
func TestGuardGrace(t *testing.T) {
	for pause, unguarded := range map[time.Duration]uint64{5 * time.Second: 0, 15 * time.Second: 1} {
		clocktest.Run(t, pause.String(), func(t *testing.T) {
			d := newDaemon(t, guarded)
			d.store.Set("order", 0, 100)
			d.id("order")
			d.guard.Break()
			d.draw("order", 50)
			clocktest.Pass(pause)
			d.guard.Connect()
			clocktest.Pass(time.Second)
			require.True(t, d.status("order").Next.Ready)
			require.Equal(t, unguarded, d.Guard().Unguarded)
		})
	}
}

// The first requests of a daemon wait for the guard for two seconds.
func TestGuardAtAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		d := newDaemon(t, guarded, func(d *daemon) { d.guard.Break(); d.cfg.Marks = "segmenttest" })
		d.store.Set("order", 0, 10)
		_, err := d.try("order")
		require.ErrorIs(t, err, segment.ErrUnavailable)
		time.Sleep(time.Second)
		require.Zero(t, d.id("order"))
		require.GreaterOrEqual(t, time.Since(begun), 2*time.Second)
		require.EqualValues(t, 1, d.Guard().Unguarded)
	})
}

// Patience is four round trips as measured: a guard that is slow for good is used, up to a second.
func TestPatience(t *testing.T) {
	for trip, unguarded := range map[time.Duration]bool{
		time.Millisecond: false, 60 * time.Millisecond: false, 200 * time.Millisecond: false, 1100 * time.Millisecond: true,
	} {
		clocktest.Run(t, trip.String(), func(t *testing.T) {
			d := newDaemon(t, guarded)
			d.guard.Delay(trip) // it becomes so slow while it is used
			d.store.Set("order", 0, 10)
			for range 100 {
				_, _ = d.ids("order", 20)
				time.Sleep(time.Second)
			}
			before := d.Guard().Unguarded
			for range 20 {
				d.drain("order")
				time.Sleep(3 * time.Second)
			}
			require.Equal(t, unguarded, d.Guard().Unguarded > before)
			require.Equal(t, unguarded, d.troubled(segment.ErrUnguarded, ""))
		})
	}
}

// raised-after-a-loss: all marks on this disk, those of fetches that were between high and mark among them, once for each
// loss; a root that was restored counts again. What deletes a tag stays.
func TestRaiseAfterALoss(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		names := named(d.store, "tag", 200, 10)
		require.Zero(t, d.each(names))
		clocktest.Pass(time.Second)
		table := &segment.Table{Admin: d.store, Guard: d.guard, Marks: newMarks(t), Patience: time.Second}
		_, err := table.Delete(t.Context(), names[7])
		require.NoError(t, err)
		mine := func(tag string) int64 { return d.marks.Mark(tag).High }
		raised := func() (n int) {
			for _, name := range names {
				if d.guard.Mark(name).High >= mine(name) {
					n++
				}
			}
			return n
		}
		restore := d.guard.Snapshot()

		slow := d.marks.Hang(segmenttest.OpRaise) // a fetch between high and mark
		go func() { _, _ = d.ids(names[3], 50) }()
		time.Sleep(100 * time.Millisecond)
		d.guard.Wipe()
		d.guard.NoteLoss()
		d.guard.Break() // so that it is seen at once
		d.guard.Connect()
		time.AfterFunc(1500*time.Millisecond, slow)
		clocktest.Pass(13 * time.Second)
		require.Equal(t, 200, raised())
		require.GreaterOrEqual(t, d.guard.Mark(names[3]).High, mine(names[3]), "that of the fetch, too")
		pages := d.marks.Calls(segmenttest.OpPage)
		clocktest.Pass(time.Minute)
		require.Equal(t, pages, d.marks.Calls(segmenttest.OpPage), "once")
		d = d.again()
		clocktest.Pass(12 * time.Second)
		require.LessOrEqual(t, d.marks.Calls(segmenttest.OpPage)-pages, 1, "noted over a stop: only what is behind is looked for")

		restore() // the root of before the loss, and the marks with it
		d.guard.Break()
		d.guard.Connect()
		clocktest.Pass(2 * time.Second)
		require.Equal(t, 200, raised())
		d.guard.Wipe()
		d.guard.NoteLoss() // the same number once more, which is raised for
		clocktest.Pass(12 * time.Second)
		require.Equal(t, 200, raised())

		restore()
		d.guard.NoteLoss()
		d.guard.NoteLoss()
		d.guard.Break()
		d.guard.Connect()
		clocktest.Pass(2 * time.Second)
		require.True(t, d.guard.Mark(names[7]).Deleted, "a raise keeps it")
	}, required)
}

// One mark that the guard refuses keeps no other from being raised, and is tried again.
func TestRaiseRefused(t *testing.T) {
	for name, refuse := range map[string]func(d *daemon, on bool){
		"refused": func(d *daemon, on bool) { d.guard.Refuse("tag-00005", on) },
		"damaged": func(d *daemon, on bool) { d.guard.Damage("tag-00005", on) },
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon(t, guarded)
			names := named(d.store, "tag", 100, 10)
			require.Zero(t, d.each(names))
			clocktest.Pass(time.Second)
			refuse(d, true)
			d.guard.Wipe()
			d.guard.NoteLoss()
			clocktest.Pass(13 * time.Second)
			for _, name := range names {
				require.Equal(t, name != "tag-00005", d.guard.Mark(name).High > 0, name)
			}
			begun := d.guard.Calls(segmenttest.OpRead, segmenttest.OpWrite)
			clocktest.Pass(time.Minute)
			require.Less(t, d.guard.Calls(segmenttest.OpRead, segmenttest.OpWrite)-begun, 60, "only that one is tried again")
			refuse(d, false)
			clocktest.Pass(12 * time.Second)
			require.Positive(t, d.guard.Mark("tag-00005").High)
			require.False(t, d.marks.Mark("tag-00005").Behind)
		})
	}
}

// A raise counts for the mark that it was sent with: one that has grown meanwhile is behind.
func TestRaiseCountsForWhatItWasSentWith(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Set("order", 0, 10)
		clocktest.Pass(3 * time.Second)
		d.id("order")
		d.guard.Before(func(ctx context.Context, op segmenttest.Op, _ []string) error {
			if op != segmenttest.OpWrite {
				return nil
			}
			d.guard.Before(nil)
			return d.marks.Raise(ctx, []segment.Mark{{Tag: "order", High: 5000, Behind: true}})
		})
		d.guard.Connect()
		clocktest.Pass(500 * time.Millisecond)
		require.True(t, d.marks.Mark("order").Behind)
		require.Less(t, d.guard.Mark("order").High, int64(5000))
	}, guarded, func(d *daemon) { d.cfg.Marks = "segmenttest"; d.guard.Break() })
}

// marks-of-their-store: marks of another store count for nothing, and are told.
func TestMarksOfAnotherStore(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Set("order", 0, 10)
		d.draw("order", 500)
		require.Empty(t, d.of(segment.KindOtherMarks))
		trial := d.marks
		d = d.again(func(d *daemon) { d.store = segmenttest.NewStore(); d.guard, d.cfg.Marks = segmenttest.NewGuard(), "" })
		d.store.Set("order", 7, 10)
		require.EqualValues(t, 7, d.id("order"))
		require.Equal(t, trial, d.marks)
		e := d.of(segment.KindOtherMarks)
		require.Len(t, e, 1)
		require.EqualValues(t, 1, e[0].Count)
		require.Equal(t, "segmenttest", e[0].Now)
	})
}

// With the cluster's name from an earlier life, a guard of another cluster is away, and nothing is served by its marks.
func TestFirstRootTells(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Set("order", 0, 10)
		clocktest.Pass(20 * time.Second)
		_, err := d.try("order")
		require.ErrorIs(t, err, segment.ErrUnavailable)
		require.Error(t, d.Ready())
		require.True(t, d.troubled(segment.ErrUnavailable, ""))
		d.guard.Connect()
		clocktest.Pass(time.Second)
		require.Zero(t, d.id("order"))
	}, guarded, func(d *daemon) { d.guard.Break() })
}
