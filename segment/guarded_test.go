package segment_test

import (
	"context"
	"errors"
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

// site is a table and a guard, and what is started on them.
type site struct {
	store *segmenttest.Store
	guard *segmenttest.Guard
}

func newSite() site {
	s := site{segmenttest.NewStore(), segmenttest.NewGuard()}
	s.store.Set("order", 0, 10)
	return s
}

// member is a daemon of a site.
type member struct {
	*segment.Service
	*recorder
	guard *segmenttest.Guard
	marks *segmenttest.HighWater
	stop  func()
}

// daemon starts a daemon with an empty directory, unless cfg has marks.
func (s site) daemon(t *testing.T, cfg segment.Config) member {
	t.Helper()
	m := member{recorder: &recorder{}, guard: s.guard.Beside(), marks: segmenttest.NewHighWater()}
	if marks, ok := cfg.HighWater.(*segmenttest.HighWater); ok {
		m.marks = marks
	}
	cfg.HighWater, cfg.Guard, cfg.Notify = m.marks, m.guard, m.notify
	if cfg.Store == nil {
		cfg.Store = s.store
	}
	cfg.Clock = fakeClock()
	m.Service = newService(t, cfg)
	m.stop = run(t, m.Service)
	eventually(t, m.Loaded, "loaded")
	return m
}

// take takes n IDs of order one by one, none of which seen has, and returns the last.
func (m member) take(t *testing.T, n int, seen map[int64]bool) int64 {
	t.Helper()
	last := int64(-1)
	for range n {
		last = next(t, lookup(t, m.Service, "order"))
		require.False(t, seen[last], "%d comes twice", last)
		seen[last] = true
	}
	return last
}

func (s site) setBack(maxID int64) { s.store.Edit("order", func(r *segment.Row) { r.MaxID = maxID }) }

func (s site) maxID() int64 {
	row, _ := s.store.Row("order")
	return row.MaxID
}

// high-mark-decides, moved-forward: the table forgets, and three daemons go on, one of them new.
func TestGuardAgainstATableThatWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := newSite(), map[int64]bool{}
		a, b := s.daemon(t, segment.Config{}), s.daemon(t, segment.Config{})
		all := []member{a, b}
		for _, back := range []int64{0, 7, 3} {
			a.take(t, 35, seen)
			b.take(t, 35, seen)
			for _, m := range all {
				eventually(t, func() bool { return !status(t, m.Service, "order").Fetching }, "both ranges")
			}
			before := s.maxID()
			s.setBack(back)
			c := s.daemon(t, segment.Config{})
			all = append(all, c)
			require.GreaterOrEqual(t, c.take(t, 15, seen), before, "one who knows nothing of it")
			a.take(t, 35, seen)
			b.take(t, 35, seen)
			require.Greater(t, s.maxID(), before, "moved forward")
			eventually(t, func() bool { return len(c.of(segment.KindMoved, "order")) > 0 }, "event")
		}
		for _, m := range []member{a, b} {
			require.False(t, troubled(m.Service, segment.ErrRegressed, "order"))
			require.Zero(t, m.Guard().Unguarded)
		}
	})
}

// high-mark-decides: both halves of a split brain.
func TestGuardOverTwoTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := newSite(), map[int64]bool{}
		other := segmenttest.NewStore()
		other.Set("order", 0, 10)
		a, b := s.daemon(t, segment.Config{Node: "a:1"}), s.daemon(t, segment.Config{Node: "b:1", Store: other})
		for range 20 {
			a.take(t, 7, seen)
			b.take(t, 11, seen)
		}
		for other, m := range map[string]member{"b:1": a, "a:1": b} {
			eventually(t, func() bool { return troubled(m.Service, segment.ErrTablesDiffer, "order") }, "told")
			m.take(t, 30, seen) // fetches that meet our own high mark
			require.ErrorContains(t, m.Troubles()[0].Err, "node "+other)
		}
		b.stop()
		c := s.daemon(t, segment.Config{Node: "c:1"})                            // on a's table
		for n := 0; troubled(a.Service, segment.ErrTablesDiffer, "order"); n++ { // until a has fetched after c
			require.Less(t, n, 1000, "over")
			a.take(t, 7, seen)
			c.take(t, 11, seen)
		}
		require.False(t, troubled(c.Service, segment.ErrTablesDiffer, "order"), "once is no reason")
	})
}

// moved-forward: a daemon that saw the table go back says so, once, at the pass or at the fetch.
func TestGuardTellsThatTheTableWentBack(t *testing.T) {
	for name, look := range map[string]bool{"a pass finds it": true, "a fetch finds it": false} {
		clocktest.Run(t, name, func(t *testing.T) {
			s, seen := newSite(), map[int64]bool{}
			a := s.daemon(t, segment.Config{Refresh: time.Hour})
			a.take(t, 5, seen)
			eventually(t, func() bool { return status(t, a.Service, "order").Next.Ready }, "both ranges")
			s.setBack(5)
			if look {
				reload(t, a.Service)
				require.True(t, troubled(a.Service, segment.ErrRegressed, "order"), "before any fetch")
				require.ErrorContains(t, a.Troubles()[0].Err, "below 20")
			}
			a.take(t, 50, seen)
			eventually(t, func() bool { return len(a.of(segment.KindMoved, "order")) == 1 }, "event")
			reload(t, a.Service)
			require.Empty(t, a.Troubles())
			require.Len(t, a.of(segment.KindMoved, "order"), 1)
		})
	}
}

// slowPass gives the rows as they were before a fetch that ends during the pass.
type slowPass struct {
	*segmenttest.Store
	during func()
}

func (s *slowPass) Each(_ context.Context, _ segment.View, fn func(tag []byte, maxID, step int64) error) (segment.View, error) {
	row, _ := s.Row("order")
	if s.during != nil {
		s.during()
	}
	return segment.View{Whole: true}, fn([]byte("order"), row.MaxID, row.Step)
}

func TestPassOlderThanAFetchTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := newSite(), map[int64]bool{}
		store := &slowPass{Store: s.store}
		a := s.daemon(t, segment.Config{Store: store, Refresh: time.Hour})
		store.during = func() { a.take(t, 25, seen) }
		reload(t, a.Service)
		store.during = nil
		reload(t, a.Service)
		require.Empty(t, a.Troubles())
		synctest.Wait() // for the range ahead: a fetch would move the table forward
		s.setBack(1)
		reload(t, a.Service)
		require.True(t, troubled(a.Service, segment.ErrRegressed, "order"))
	})
}

// high-mark-decides: the answer to the write is lost, and the write has arrived.
func TestGuardWhoseAnswerIsLost(t *testing.T) {
	for name, refuse := range map[string]bool{"a table behind is moved": false, "a table behind is refused": true} {
		clocktest.Run(t, name, func(t *testing.T) {
			s, seen := newSite(), map[int64]bool{}
			cfg := segment.Config{Wait: patience, RefuseRegressed: refuse}
			a := s.daemon(t, cfg)
			lost := 0
			a.guard.After(func(_ context.Context, op segmenttest.Op, _ string) error {
				if op == segmenttest.OpPut && lost < 3 {
					lost++
					return errDown
				}
				return nil
			})
			require.EqualValues(t, 129, a.take(t, 100, seen), "each costs one range")
			require.Equal(t, 3, lost)
			require.EqualValues(t, 3, a.Guard().GivenUp)
			require.Zero(t, a.Guard().Unguarded)
			s.daemon(t, cfg).take(t, 25, seen)
		})
	}
}

// never-below-seen: another daemon's high mark counts also where that of a range that was given up has
// taken its place: a table below it went backwards.
func TestGuardAfterAnotherWhereTheAnswerIsLost(t *testing.T) {
	for name, raised := range map[string]bool{"it has arrived": false, "it is raised in the next session": true} {
		clocktest.Run(t, name, func(t *testing.T) {
			s := newSite()
			a, b := s.daemon(t, segment.Config{RefuseRegressed: true, GuardRequired: true, FetchTimeout: time.Second, Refresh: time.Hour}), s.guard.Beside()
			a.guard.Settle(time.Second)
			other := func(high int64) {
				m, err := b.Get(t.Context(), b.Connection(), "order")
				require.NoError(t, err)
				_, err = b.Put(t.Context(), "order", m, high, "b/1")
				require.NoError(t, err)
			}
			var once sync.Once
			lose := func(_ context.Context, op segmenttest.Op, _ string) (err error) {
				if op != segmenttest.OpPut {
					return nil
				}
				once.Do(func() {
					if raised {
						other(5)
						a.guard.Break()
						a.guard.Connect()
					}
					err = errDown
				})
				return err
			}
			s.setBack(3)
			if raised {
				a.guard.Before(lose)
			} else {
				other(5)
				s.setBack(5)
				a.guard.After(func(ctx context.Context, op segmenttest.Op, tag string) error {
					err := lose(ctx, op, tag)
					if err != nil {
						s.setBack(3)
					}
					return err
				})
			}
			_, err := lookup(t, a.Service, "order").Next(t.Context())
			require.ErrorIs(t, err, segment.ErrUnavailable)
			eventually(t, func() bool { return errors.Is(status(t, a.Service, "order").LastError, segment.ErrRegressed) }, "refused")
			require.Greater(t, s.guard.High("order"), int64(5), "ours")
			require.EqualValues(t, 3, s.maxID())
		})
	}
}

// high-mark-decides: others write the high mark between our reading and our write, though we hold the
// row: theirs is in another server. The range begins above it in the same transaction.
func TestGuardConflicts(t *testing.T) {
	for name, tc := range map[string]struct{ high, want int64 }{
		"below the range":  {high: 10, want: 10},
		"above its begin":  {high: 11, want: 11},
		"far ahead of all": {high: 1000, want: 1000},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			s := newSite()
			a, b := s.daemon(t, segment.Config{}), s.guard.Beside()
			s.setBack(10)
			once := false
			a.guard.Before(func(ctx context.Context, op segmenttest.Op, _ string) error {
				if op != segmenttest.OpPut || once {
					return nil
				}
				once = true
				m, err := b.Get(ctx, b.Connection(), "order")
				if err == nil {
					_, err = b.Put(ctx, "order", m, tc.high, "b/1")
				}
				return err
			})
			require.Equal(t, tc.want, next(t, lookup(t, a.Service, "order")))
			require.EqualValues(t, 1, a.Guard().Conflicts)
			require.Zero(t, a.Guard().GivenUp)
			require.GreaterOrEqual(t, s.maxID(), tc.want+10)
		})
	}
}

// high-mark-decides: the high mark is written, and the commit fails, or its answer is lost. Meanwhile
// a daemon without the guard fetches from the same table.
func TestGuardWrittenAndNotCommitted(t *testing.T) {
	for name, arrives := range map[string]bool{"fails": false, "no answer": true} {
		for behind, refuse := range map[string]bool{"": false, ", and a table behind is refused": true} {
			clocktest.Run(t, name+behind, func(t *testing.T) {
				s, seen := newSite(), map[int64]bool{}
				store := &uncertain{Store: s.store, arrives: arrives}
				a := s.daemon(t, segment.Config{Store: store, Wait: patience, RefuseRegressed: refuse})
				b := s.daemon(t, segment.Config{RefuseRegressed: refuse})
				store.left = 3
				store.during = func() {}
				if !refuse {
					b.guard.Break()
					store.during = func() { b.take(t, 25, seen) }
				}
				a.take(t, 100, seen)
				require.Zero(t, store.left)
				require.EqualValues(t, 3, a.Guard().GivenUp)
				require.Zero(t, a.Guard().Unguarded)
				b.guard.Connect()
				eventually(t, func() bool { return b.Guard().Guarded && b.Guard().Behind == 0 }, "guarded again")
				if !refuse {
					s.setBack(0)
				}
				a.take(t, 100, seen)
				b.take(t, 100, seen)
			})
		}
	}
}

// uncertain is a Store that fails left fetches once the guard has disposed of them.
type uncertain struct {
	*segmenttest.Store
	arrives bool // the commit is done, but not confirmed
	left    int
	during  func() // called after each
}

func (s *uncertain) FetchGuarded(ctx context.Context, tag string, want int64, dispose segment.Dispose) (segment.Range, error) {
	if s.left == 0 {
		return s.Store.FetchGuarded(ctx, tag, want, dispose)
	}
	s.left--
	_, err := s.Store.FetchGuarded(ctx, tag, want, func(reserve func(int64, bool) (segment.Range, error)) error {
		if err := dispose(reserve); err != nil || s.arrives {
			return err
		}
		return errDown
	})
	s.during()
	return segment.Range{}, errors.Join(errDown, err)
}

// high-mark-decides: on a table that locks rows, fifty daemons on one tag are not in each other's way.
func TestGuardOfManyDaemons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := newSite(), map[int64]bool{}
		var all []member
		for range 50 {
			m := s.daemon(t, segment.Config{Wait: patience})
			m.guard.Before(func(context.Context, segmenttest.Op, string) error {
				time.Sleep(2 * time.Millisecond)
				return nil
			})
			all = append(all, m)
		}
		for range 5 {
			for _, m := range all {
				m.take(t, 10, seen)
			}
		}
		for _, m := range all {
			require.Zero(t, m.Guard().Conflicts)
			require.Zero(t, m.Guard().GivenUp)
			require.Zero(t, m.Guard().Unguarded)
		}
	})
}

// moved-forward: a max_id that was set by mistake, seen by a pass, and set back by hand.
func TestGuardAgainstAMaxIDThatWasSetBack(t *testing.T) {
	for name, refuse := range map[string]bool{"moved forward": false, "refused": true} {
		clocktest.Run(t, name, func(t *testing.T) {
			s, seen := newSite(), map[int64]bool{}
			a := s.daemon(t, segment.Config{RefuseRegressed: refuse, Refresh: time.Hour})
			a.take(t, 1, seen)
			eventually(t, func() bool { return status(t, a.Service, "order").Next.Ready }, "both ranges")
			s.setBack(9e12)
			reload(t, a.Service)
			s.setBack(20)
			reload(t, a.Service)
			drain(t, lookup(t, a.Service, "order"))
			id, err := lookup(t, a.Service, "order").Next(t.Context())
			if refuse {
				require.ErrorIs(t, err, segment.ErrRegressed)
				return
			}
			require.NoError(t, err)
			require.EqualValues(t, 20, id)
			require.Less(t, s.maxID(), int64(100))
		})
	}
}

// raised-when-back: without the guard requests are served all the same, and it has what was used
// before another fetch is guarded.
func TestGuardAwayAndPreferred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := newSite(), map[int64]bool{}
		a := s.daemon(t, segment.Config{})
		a.take(t, 5, seen)
		a.guard.Break()
		last := a.take(t, 100, seen)
		require.True(t, troubled(a.Service, segment.ErrUnguarded, ""))
		require.Positive(t, a.Guard().Unguarded)
		require.Less(t, s.guard.High("order"), last)
		a.guard.Connect()
		eventually(t, func() bool { return a.Guard().Guarded && a.Guard().Behind == 0 }, "guarded again")
		require.Greater(t, s.guard.High("order"), last)
		eventually(t, func() bool { return len(a.Troubles()) == 0 }, "over")
		s.setBack(0)
		b := s.daemon(t, segment.Config{})
		b.take(t, 30, seen)
		a.take(t, 30, seen)
	})
}

// raised-when-back: a tag that the guard refuses to write is refused, with an error that says so, and
// harms no other.
func TestGuardRefusesATag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := newSite(), map[int64]bool{}
		s.store.Set("other", 0, 10)
		a := s.daemon(t, segment.Config{Wait: time.Second})
		last := a.take(t, 5, seen)
		var refuses atomic.Bool
		a.guard.Before(func(_ context.Context, op segmenttest.Op, tag string) error {
			if refuses.Load() && op == segmenttest.OpPut && tag == "order" {
				return segmenttest.ErrRefused
			}
			return nil
		})
		a.guard.Break()
		last = max(last, a.take(t, 100, seen)) // unguarded
		require.EqualValues(t, 0, next(t, lookup(t, a.Service, "other")))
		refuses.Store(true)
		a.guard.Connect()
		eventually(t, func() bool { return s.guard.High("other") > 0 && a.Guard().Behind == 1 }, "the other is raised")
		drain(t, lookup(t, a.Service, "order"))
		_, err := lookup(t, a.Service, "order").Next(t.Context())
		require.ErrorIs(t, err, segment.ErrUnavailable)
		require.True(t, troubled(a.Service, segment.ErrStore, ""))
		require.ErrorIs(t, status(t, a.Service, "order").LastError, segmenttest.ErrRefused)
		for range 50 {
			next(t, lookup(t, a.Service, "other"))
			require.True(t, a.Guard().Guarded)
		}
		require.True(t, troubled(a.Service, segment.ErrUnguarded, ""))
		require.Less(t, s.guard.High("order"), last)
		refuses.Store(false)
		eventually(t, func() bool { return a.Guard().Behind == 0 && s.guard.High("order") > last }, "raised")
		eventuallyServes(t, lookup(t, a.Service, "order"))
		eventually(t, func() bool { return len(a.Troubles()) == 0 }, "over")
	})
}

// raised-when-back: no request waits, so the fetch waits for the guard.
func TestGuardAwayForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := newSite(), map[int64]bool{}
		a := s.daemon(t, segment.Config{})
		a.take(t, 1, seen)
		eventually(t, func() bool { return status(t, a.Service, "order").Next.Ready }, "both ranges")
		a.guard.Break()
		a.take(t, 15, seen) // the second range is in use, and the third is wanted
		fetched := s.store.Fetches("order")
		time.Sleep(300 * time.Millisecond)
		require.Equal(t, fetched, s.store.Fetches("order"))
		require.Zero(t, a.Guard().Unguarded)
		require.True(t, status(t, a.Service, "order").Fetching)
		a.guard.Connect()
		eventually(t, func() bool { return status(t, a.Service, "order").Next.Ready }, "fetched")
		require.Zero(t, a.Guard().Unguarded)
		require.Empty(t, a.Troubles())
		require.Zero(t, status(t, a.Service, "order").Failures)
	})
}

// raised-when-back: a guard that hangs holds no request up beyond its patience.
func TestGuardHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := newSite(), map[int64]bool{}
		a := s.daemon(t, segment.Config{Wait: 15 * time.Second, FetchTimeout: 20 * time.Second})
		a.take(t, 5, seen)
		release := a.guard.Hang()
		a.take(t, 60, seen)
		require.Positive(t, a.Guard().Unguarded)
		release()
		eventually(t, func() bool { return a.Guard().Guarded }, "guarded again")
	})
}

// marks-loaded-first: without the guard a table behind is refused.
func TestGuardAwayAndTheTableBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := newSite(), map[int64]bool{}
		a := s.daemon(t, segment.Config{})
		a.take(t, 5, seen)
		eventually(t, func() bool { return status(t, a.Service, "order").Next.Ready }, "both ranges")
		a.guard.Break()
		s.setBack(5)
		drain(t, lookup(t, a.Service, "order"))
		_, err := lookup(t, a.Service, "order").Next(t.Context())
		require.ErrorIs(t, err, segment.ErrRegressed)
		a.guard.Connect()
		eventuallyServes(t, lookup(t, a.Service, "order"))
		require.GreaterOrEqual(t, next(t, lookup(t, a.Service, "order")), int64(20))
	})
}

// raised-when-back: nothing is fetched without a guard that is required.
func TestGuardAwayAndRequired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := newSite(), map[int64]bool{}
		a := s.daemon(t, segment.Config{GuardRequired: true, FetchTimeout: time.Second, Wait: 2 * time.Second})
		a.take(t, 5, seen)
		eventually(t, func() bool { return status(t, a.Service, "order").Next.Ready }, "both ranges")
		a.guard.Break()
		require.EqualValues(t, 19, drain(t, lookup(t, a.Service, "order")), "what is in memory is good")
		_, err := lookup(t, a.Service, "order").Next(t.Context())
		require.ErrorIs(t, err, segment.ErrUnavailable)
		require.EqualValues(t, 20, s.maxID())
		require.True(t, troubled(a.Service, segment.ErrGuardAway, ""))
		a.guard.Connect()
		eventuallyServes(t, lookup(t, a.Service, "order"))
		require.EqualValues(t, 21, a.take(t, 1, seen), "no range is lost")
	})
}

// raised-when-back: after an outage others may have used what the guard has lost, and the table
// too: a daemon that requires the guard waits for them.
func TestGuardThatLostItsMarksIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := newSite(), map[int64]bool{}
		cfg := segment.Config{GuardRequired: true, FetchTimeout: 1000 * time.Hour, Refresh: 1000 * time.Hour}
		a, b := s.daemon(t, cfg), s.daemon(t, cfg)
		for _, m := range []member{a, b} {
			m.guard.Settle(time.Hour)
		}
		a.take(t, 1, seen)
		eventually(t, func() bool { return !status(t, a.Service, "order").Fetching }, "both ranges")
		lost, behind := s.guard.Snapshot(), s.maxID()
		b.take(t, 30, seen)
		eventually(t, func() bool { return !status(t, b.Service, "order").Fetching }, "both ranges")
		for _, m := range []member{a, b} {
			m.guard.Break()
		}
		lost()
		s.setBack(behind)
		high := status(t, b.Service, "order").High
		var opened atomic.Bool
		a.guard.Before(func(_ context.Context, op segmenttest.Op, _ string) error {
			opened.Store(opened.Load() || op == segmenttest.OpOpen)
			return nil
		})
		eventually(t, func() bool { clocktest.Pass(time.Millisecond); return !a.Guard().Guarded && !b.Guard().Guarded }, "both see that it is away")
		a.guard.Connect()
		eventually(t, func() bool { clocktest.Pass(time.Millisecond); return opened.Load() }, "one has found it")
		b.guard.Connect()
		// All of this takes a minute of the hour at most.
		eventually(t, func() bool { clocktest.Pass(time.Millisecond); return s.guard.High("order") >= high }, "the other has put back what it knows")
		require.False(t, a.Guard().Guarded)
		eventually(t, func() bool { clocktest.Pass(time.Minute); return a.Guard().Guarded && b.Guard().Guarded }, "guarded again")
		a.take(t, 60, seen)
		b.take(t, 60, seen)
	})
}

// marks-loaded-first, raised-when-back: what an earlier life used without the guard is raised.
func TestGuardGetsTheMarksOfALifeBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := newSite(), map[int64]bool{}
		a := s.daemon(t, segment.Config{})
		a.guard.Break()
		last := a.take(t, 50, seen)
		a.stop()
		require.Zero(t, s.guard.High("order"))
		b := s.daemon(t, segment.Config{HighWater: a.marks})
		eventually(t, func() bool { return s.guard.High("order") > last }, "raised without a request")
		require.Greater(t, status(t, b.Service, "order").High, last, "the mark is known before the first use")
	})
}

// The guard loses a high mark while it is connected: all that this daemon knows is raised.
func TestGuardForgetsWhileConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := newSite(), map[int64]bool{}
		s.store.Set("other", 0, 10)
		a := s.daemon(t, segment.Config{})
		a.take(t, 25, seen)
		next(t, lookup(t, a.Service, "other"))
		high := s.guard.High("other")
		require.Positive(t, high)
		s.guard.Forget("order")
		s.guard.Forget("other")
		a.take(t, 50, seen)
		eventually(t, func() bool { return s.guard.High("other") >= high }, "put back")
		require.Zero(t, a.Guard().Unguarded)
	})
}

func TestGuardDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.store.Set("other", 0, 10)
		s.guard.Damage("order", true)
		a := s.daemon(t, segment.Config{Wait: time.Second})
		_, err := lookup(t, a.Service, "order").Next(t.Context())
		require.ErrorIs(t, err, segment.ErrGuardDamaged)
		require.Zero(t, s.maxID(), "nothing is taken")
		require.Zero(t, next(t, lookup(t, a.Service, "other")))
		require.Zero(t, a.Guard().Unguarded)
		s.guard.Damage("order", false)
		eventuallyServes(t, lookup(t, a.Service, "order"))
	})
}

func TestGuardWhereARegressedTableIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := newSite(), map[int64]bool{}
		a := s.daemon(t, segment.Config{RefuseRegressed: true})
		a.take(t, 5, seen)
		s.setBack(3)
		b := s.daemon(t, segment.Config{RefuseRegressed: true})
		_, err := lookup(t, b.Service, "order").Next(t.Context())
		require.ErrorIs(t, err, segment.ErrRegressed, "also by one who has only the guard to know it from")
		require.EqualValues(t, 3, s.maxID())
	})
}

// deleted-mark-stays.
func TestGuardOfADeletedTag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := newSite(), map[int64]bool{}
		a := s.daemon(t, segment.Config{})
		last := a.take(t, 35, seen)
		_, err := s.store.Delete(t.Context(), "order", nil)
		require.NoError(t, err)
		reload(t, a.Service, "order")
		s.store.Set("order", 1, 10)
		reload(t, a.Service)
		b := s.daemon(t, segment.Config{})
		require.Greater(t, b.take(t, 15, seen), last)
		a.take(t, 35, seen)
		require.Empty(t, a.Troubles(), "it is another row")
	})
}

// raised-when-back: a session that goes on over a broken connection has lost nothing, so that nothing
// settles, and no mark is read but those of tags that are fetched for.
func TestSessionThatGoesOnSettlesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := newSite(), map[int64]bool{}
		a := s.daemon(t, segment.Config{GuardRequired: true, FetchTimeout: time.Second, Wait: 2 * time.Second})
		a.guard.Settle(time.Hour)
		a.guard.Session("first")
		reconnect := func() (asked int64) {
			var gets atomic.Int64
			a.guard.Before(func(_ context.Context, op segmenttest.Op, _ string) error {
				if op == segmenttest.OpGet {
					gets.Add(1)
				}
				return nil
			})
			a.guard.Break()
			eventually(t, func() bool { return !a.Guard().Guarded }, "away")
			a.guard.Connect()
			time.Sleep(time.Minute)
			return gets.Load()
		}
		a.take(t, 5, seen)
		eventually(t, func() bool { return status(t, a.Service, "order").Next.Ready }, "both ranges")
		reconnect() // the connection before told of no session
		time.Sleep(time.Hour)
		require.True(t, a.Guard().Guarded)
		require.Zero(t, reconnect())
		require.True(t, a.Guard().Guarded)
		a.guard.Session("second")
		require.Positive(t, reconnect())
		require.False(t, a.Guard().Guarded, "it settles")
		time.Sleep(time.Hour)
		require.True(t, a.Guard().Guarded)
	})
}

// A daemon tells which one took the last range by what its own fetches have shown.
func TestWhoFetchedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := newSite(), map[int64]bool{}
		a := s.daemon(t, segment.Config{Node: "a", Refresh: time.Hour})
		b := s.daemon(t, segment.Config{Node: "b", Refresh: time.Hour})
		took := func(m member) { // until it has fetched
			s := status(t, m.Service, "order").High
			for status(t, m.Service, "order").High == s {
				m.take(t, 1, seen)
				eventually(t, func() bool { return !status(t, m.Service, "order").Fetching }, "both ranges")
			}
		}
		require.Empty(t, status(t, a.Service, "order").FetchedBy)
		took(a)
		st := status(t, a.Service, "order")
		require.Equal(t, "a", st.FetchedBy)
		require.Equal(t, st.LastFetch, st.FetchedAt)

		took(b)
		require.Equal(t, "b", status(t, b.Service, "order").FetchedBy)
		require.Equal(t, "a", status(t, a.Service, "order").FetchedBy, "nothing has told it")
		reload(t, a.Service)
		st = status(t, a.Service, "order")
		require.Empty(t, st.FetchedBy, "another daemon, but not which")
		require.Zero(t, st.FetchedAt)
		took(a)
		require.Equal(t, "a", status(t, a.Service, "order").FetchedBy)
	})
}

// raised-when-back: the guard comes back while a range is fetched without it: that one is not used.
func TestGuardThatIsBackBeforeTheRangeIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := newSite(), map[int64]bool{}
		a, b := s.daemon(t, segment.Config{Refresh: time.Hour}), s.daemon(t, segment.Config{Refresh: time.Hour})
		a.take(t, 5, seen)
		eventually(t, func() bool { return status(t, a.Service, "order").Next.Ready }, "both ranges")
		a.guard.Break()
		var back sync.Once
		s.store.After(func(_ context.Context, op segmenttest.Op, _ string) error {
			if op == segmenttest.OpFetch && !a.Guard().Guarded {
				back.Do(func() {
					a.guard.Connect()
					eventually(t, func() bool { return a.Guard().Guarded }, "the guard is back")
				})
			}
			return nil
		})
		last := a.take(t, 30, seen)
		require.EqualValues(t, 1, a.Guard().GivenUp)
		require.Zero(t, a.Guard().Unguarded)
		require.Greater(t, s.guard.High("order"), last)
		s.setBack(1)
		b.take(t, 30, seen)
	})
}
