package segment_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
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

// refusing returns a service that fails requests at once where nothing is in memory.
func refusing(t *testing.T, store *segmenttest.Store) *segment.Service {
	t.Helper()
	return start(t, segment.Config{Store: store, Clock: fakeClock(), Wait: time.Millisecond, Refresh: time.Hour})
}

func TestIssued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 0, 10)
		svc := refusing(t, store)
		tag := lookup(t, svc, "order")
		require.Zero(t, tag.Status().Issued)
		eventuallyServes(t, tag)
		for range 4 {
			next(t, tag)
		}
		require.EqualValues(t, 5, tag.Status().Issued)
		eventually(t, func() bool { return tag.Status().Next.Ready }, "both ranges")
		store.Fail(errDown)
		require.NoError(t, tag.NextN(t.Context(), make([]int64, 12)), "across ranges")
		require.EqualValues(t, 17, tag.Status().Issued)

		// Three are there, twenty are asked for: those that want fewer can have them.
		for range 10 {
			require.ErrorIs(t, tag.NextN(t.Context(), make([]int64, 20)), segment.ErrUnavailable)
		}
		require.EqualValues(t, 17, tag.Status().Issued)
		require.NoError(t, tag.NextN(t.Context(), make([]int64, 2)))
		next(t, tag)
		for range 5 {
			_, err := tag.Next(t.Context())
			require.ErrorIs(t, err, segment.ErrUnavailable)
		}
		issued := int64(20)
		require.Equal(t, issued, tag.Status().Issued, "a refusal counts nothing")

		// A batch that has begun with the current range, for the next one was there.
		store.Fail(nil)
		eventually(t, func() bool { return tag.Status().Next.Ready || tag.Status().Current.Ready }, "a range")
		for !tag.Status().Next.Ready {
			eventuallyServes(t, tag)
			issued++
			eventually(t, func() bool { return !tag.Status().Fetching }, "at rest")
		}
		store.Fail(errDown)
		require.ErrorIs(t, tag.NextN(t.Context(), make([]int64, 1000)), segment.ErrUnavailable)
		require.Greater(t, tag.Status().Issued, issued, "what it took counts")
		issued = tag.Status().Issued

		// The row goes and comes back.
		store.Fail(nil)
		eventuallyServes(t, tag)
		issued++
		row, _ := store.Row("order")
		left := tag.Live()
		_, err := store.Delete(t.Context(), "order", nil)
		require.NoError(t, err)
		require.NoError(t, svc.Reload(t.Context(), "order"))
		require.Zero(t, left.Take(make([]int64, 1)), "whoever has just loaded it gets nothing that would not be counted")
		store.Set("order", row.MaxID+100, 10)
		require.NoError(t, svc.Reload(t.Context()))
		again := lookup(t, svc, "order")
		require.NotSame(t, tag, again)
		require.Equal(t, issued, again.Status().Issued)
		eventuallyServes(t, again)
		require.Equal(t, issued+1, again.Status().Issued)
		for st := range svc.Used {
			require.Equal(t, issued+1, st.Issued)
		}
	})
}

// What a batch took counts, also once it has failed.
func TestIssuedNeverFalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 0, 10)
		fake := fakeClock()
		svc := start(t, segment.Config{Store: store, Clock: fake, Refresh: 1000 * time.Hour, FetchTimeout: time.Hour})
		tag := lookup(t, svc, "order")
		next(t, tag)
		eventually(t, func() bool { return tag.Status().Next.Ready }, "both ranges")
		release := store.Hang()
		failed := make(chan error, 1)
		go func() { failed <- tag.NextN(context.Background(), make([]int64, 50)) }()
		eventually(t, func() bool { return tag.Waiting() == 50-9 && store.Hung() == 1 }, "the batch waits")
		require.EqualValues(t, 10, tag.Status().Issued, "one, and what the batch has so far")
		clocktest.Pass(segment.DefaultWait)
		require.ErrorIs(t, <-failed, segment.ErrUnavailable)
		release()
		for want := int64(11); want <= 25; want++ {
			next(t, tag)
			require.Equal(t, want, tag.Status().Issued)
		}
	})
}

// The count is compared with what callers really got: single and several at once,
// with a store that fails time and again, and a row that goes and comes back.
func TestIssuedIsWhatWasHandedOut(t *testing.T) {
	const callers, rounds, batch = 8, 60, 60
	store := segmenttest.NewStore()
	store.Set("order", 0, 50)
	svc := start(t, segment.Config{
		Store: store, HighWater: segmenttest.NewHighWater(), Wait: time.Millisecond, Refresh: time.Hour, MaxStep: 50,
	})
	var got, failures atomic.Int64
	stop := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() { // scrapes
		var last int64
		for {
			for st := range svc.Used {
				if st.Issued < last {
					t.Errorf("Issued fell from %d to %d", last, st.Issued)
				}
				last = st.Issued
			}
			svc.SampleAll()
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Microsecond):
			}
		}
	})
	beside.Go(func() { // trouble
		defer close(stop)
		for round := int64(1); round <= rounds; round++ {
			served := got.Load()
			for got.Load() < served+20 { // so that there is something to lose
				time.Sleep(time.Millisecond)
			}
			switch round % 3 {
			case 0:
				refused := failures.Load()
				store.Fail(errDown)
				for failures.Load() < refused+20 {
					time.Sleep(time.Millisecond)
				}
				store.Fail(nil)
			default:
				for done := false; !done; {
					_, err := store.Delete(context.Background(), "order", nil)
					done = err == nil && svc.Reload(context.Background()) == nil
				}
				store.Set("order", round*1_000_000, 50)
				for svc.Reload(context.Background()) != nil {
				}
			}
		}
	})
	var load sync.WaitGroup
	for caller := range callers {
		load.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(caller)))
			for {
				select {
				case <-stop:
					return
				default:
				}
				tag, err := svc.Lookup([]byte("order"))
				n := 1
				if err == nil && rnd.IntN(2) == 0 {
					_, err = tag.Next(context.Background())
				} else if err == nil {
					_, n = tag.Try(1 + rnd.IntN(batch))
				}
				switch {
				case err == nil:
					got.Add(int64(n))
				case errors.Is(err, segment.ErrUnavailable), errors.Is(err, segment.ErrUnknownTag):
					failures.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	load.Wait()
	beside.Wait()

	eventually(t, func() bool { return svc.Reload(context.Background()) == nil && svc.Len() == 1 }, "the row is back")
	tag := lookup(t, svc, "order")
	require.Equal(t, got.Load(), tag.Status().Issued)
}

// Of a range that is closed while it is handed out every offset is counted by
// close, or belongs to no caller.
func TestClosedSpan(t *testing.T) {
	for _, tc := range []struct {
		name string
		r    segment.Range
	}{
		{"small", segment.Range{Lo: 5, Hi: 5000}},
		{"as large as can be", segment.Range{Lo: 0, Hi: math.MaxInt64}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for range 200 {
				s := segment.NewSpan(tc.r)
				var got atomic.Int64
				var takers sync.WaitGroup
				begun := make(chan struct{}, 4)
				for range cap(begun) {
					takers.Go(func() {
						dst := make([]int64, 3)
						for range 50 {
							got.Add(int64(s.Take(dst)))
						}
						begun <- struct{}{}
						for s.Take(dst) > 0 {
							got.Add(int64(len(dst)))
							if got.Load() == 4998 { // the small one's last batch is cut short
								return
							}
						}
					})
				}
				<-begun
				closed := s.Close()
				takers.Wait()
				require.Equal(t, closed, got.Load())
				require.Zero(t, s.Take(make([]int64, 1)))
			}
		})
	}
}

func TestFetchesAreCountedAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, marks := segmenttest.NewStore(), segmenttest.NewHighWater()
		store.Set("order", 0, 10)
		store.Set("gone", 0, 10)
		type told struct {
			tag  string
			took time.Duration
			err  error
		}
		attempts := make(chan told, 100)
		fake := fakeClock()
		svc := start(t, segment.Config{
			Store: store, HighWater: marks, Clock: fake, Refresh: 1000 * time.Hour, Wait: time.Hour, FetchTimeout: time.Hour,
			Fetched: func(tag string, took time.Duration, err error) { attempts <- told{tag, took, err} },
		})
		store.After(func(_ context.Context, op segmenttest.Op, _ string) error {
			if op == segmenttest.OpFetch {
				clocktest.Pass(3 * time.Millisecond)
			}
			return nil
		})
		marks.After(func(_ context.Context, op segmenttest.Op, _ string) error {
			if op == segmenttest.OpRaise {
				clocktest.Pass(2 * time.Millisecond)
			}
			return nil
		})
		tag := lookup(t, svc, "order")
		next(t, tag)
		for range 2 { // the range, and the one after it
			require.Equal(t, told{tag: "order", took: 5 * time.Millisecond}, <-attempts)
		}
		require.Zero(t, tag.Status().Failures)

		store.FailNext(1, errDown)
		require.NoError(t, tag.NextN(t.Context(), make([]int64, 11)))
		failed := <-attempts
		require.Equal(t, "order", failed.tag)
		require.ErrorIs(t, failed.err, errDown)
		require.Equal(t, 1, tag.Status().Failures)
		eventually(t, func() bool {
			clocktest.Pass(time.Millisecond) // its pause
			return len(attempts) == 1
		}, "tried again")
		require.NoError(t, (<-attempts).err)

		_, err := store.Delete(t.Context(), "gone", nil)
		require.NoError(t, err)
		held := lookup(t, svc, "gone")
		_, err = held.Next(t.Context())
		require.ErrorIs(t, err, segment.ErrRowMissing)
		require.ErrorIs(t, (<-attempts).err, segment.ErrRowMissing)
		require.Equal(t, 1, held.Status().Failures)
	})
}

// A caller that still holds a Tag of a removed row may look at it while the row is back: what
// was told stays told, and the tag of that row is not disturbed (the race detector looks on).
func TestStatusOfATagThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 0, 10)
		svc := start(t, segment.Config{Store: store, Clock: fakeClock()})
		gone := lookup(t, svc, "order")
		require.NoError(t, gone.NextN(t.Context(), make([]int64, 5)))
		require.EqualValues(t, 5, gone.Status().Issued)
		eventually(t, func() bool { return gone.Status().Next.Ready }, "both ranges")
		_, err := store.Delete(t.Context(), "order", nil)
		require.NoError(t, err)
		require.NoError(t, svc.Reload(t.Context(), "order"))
		store.Set("order", 1000, 10)
		require.NoError(t, svc.Reload(t.Context()))
		again := lookup(t, svc, "order")
		require.EqualValues(t, 1000, next(t, again))
		var looks sync.WaitGroup
		for _, tag := range []*segment.Tag{gone, again} {
			looks.Go(func() {
				for range 100 {
					if issued := tag.Status().Issued; issued < 5 {
						t.Errorf("Issued fell to %d", issued)
					}
					svc.SampleAll()
				}
			})
		}
		looks.Wait()
		require.EqualValues(t, 6, again.Status().Issued)
	})
}
