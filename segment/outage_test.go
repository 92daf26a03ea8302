package segment_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
)

func failRaise(_ context.Context, op segmenttest.Op, _ string) error {
	if op == segmenttest.OpRaise {
		return errDown
	}
	return nil
}

func TestDatabaseGoneAndBack(t *testing.T) {
	for _, tc := range []struct {
		name string
		down func(*segmenttest.Store) (up func())
	}{
		{"killed", func(s *segmenttest.Store) func() { s.Fail(errDown); return func() { s.Fail(nil) } }},
		{"hung", func(s *segmenttest.Store) func() { return s.Hang() }},
		{"replies lost", func(s *segmenttest.Store) func() {
			s.After(func(context.Context, segmenttest.Op, string) error { return errDown })
			return func() { s.After(nil) }
		}},
	} {
		clocktest.Run(t, tc.name, func(t *testing.T) {
			store, fake, rec := segmenttest.NewStore(), fakeClock(), &recorder{}
			names := []string{"a", "b", "c"}
			for _, name := range names {
				store.Set(name, 0, 100)
			}
			svc := start(t, segment.Config{Store: store, Clock: fake, Notify: rec.notify})
			last := make(map[string]int64)
			for _, name := range names {
				for range 20 {
					last[name] = next(t, lookup(t, svc, name))
				}
				eventually(t, func() bool { return status(t, svc, name).Next.Ready }, "both ranges")
			}

			up := tc.down(store)
			for _, name := range names {
				tag := lookup(t, svc, name)
				require.EqualValues(t, 199, drain(t, tag), "memory serves on")
				result := make(chan error, 1)
				go func() { _, err := tag.Next(context.Background()); result <- err }()
				require.ErrorIs(t, <-result, segment.ErrUnavailable)
			}
			for _, name := range names {
				eventually(t, func() bool {
					clocktest.Pass(100 * time.Millisecond)
					return status(t, svc, name).LastError != nil && troubled(svc, segment.ErrStore, "")
				}, "event")
			}
			// The tags are still known although passes fail as well.
			clocktest.Pass(2 * segment.DefaultRefresh)
			eventually(t, func() bool {
				clocktest.Pass(100 * time.Millisecond)
				all := svc.Troubles()
				return len(all) == 1 && strings.Contains(all[0].Err.Error(), "reading the tags")
			}, "the store is told once")

			up()
			for _, name := range names {
				eventually(t, func() bool {
					clocktest.Pass(100 * time.Millisecond)
					return status(t, svc, name).Current.Ready
				}, "full again without a request")
				require.GreaterOrEqual(t, next(t, lookup(t, svc, name)), int64(200))
			}
			eventually(t, func() bool {
				clocktest.Pass(100 * time.Millisecond)
				return len(svc.Troubles()) == 0
			}, "over")
		})
	}
}

func TestFailsAtOnceWhileBackingOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, fake := segmenttest.NewStore(), fakeClock()
		store.Set("order", 0, 10)
		svc := start(t, segment.Config{Store: store, Clock: fake})
		tag := lookup(t, svc, "order")
		store.Fail(errDown)
		result := make(chan error, 1)
		go func() { _, err := tag.Next(t.Context()); result <- err }()
		require.ErrorIs(t, <-result, errDown)
		eventually(t, func() bool {
			clocktest.Pass(time.Second)
			return store.Fetches("order") > 12
		}, "retries go on without requests, at the longest pause")
		synctest.Wait()
		asked := fake.Mono()
		for range 100 {
			_, err := tag.Next(t.Context())
			require.ErrorIs(t, err, segment.ErrUnavailable)
			require.ErrorIs(t, err, errDown)
		}
		require.Equal(t, asked, fake.Mono(), "none of them waits")
	})
}

// However often an empty tag is asked for, a pause has one attempt at its end.
func TestAskingSpeedsUpNoRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 0, 10)
		svc := start(t, segment.Config{Store: store, Clock: fakeClock()})
		tag := lookup(t, svc, "order")
		store.Fail(errDown)
		for began := time.Now(); time.Since(began) < time.Minute; {
			_, err := tag.Next(t.Context())
			require.ErrorIs(t, err, errDown)
			clocktest.Pass(10 * time.Millisecond)
		}
		require.InDelta(t, 4*60, store.Fetches("order"), 25, "one each 250 ms")
	})
}

// A tag that is asked for doesn't sit out the long pause that an outage has
// come to: it is full again a moment after the database is back.
func TestAskedForTagIsFullSoonAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, fake := segmenttest.NewStore(), fakeClock()
		store.Set("a", 0, 100)
		svc := start(t, segment.Config{Store: store, Clock: fake})
		store.Fail(errDown)
		tag := lookup(t, svc, "a")
		result := make(chan error, 1)
		go func() { _, err := tag.Next(context.Background()); result <- err }()
		require.ErrorIs(t, <-result, segment.ErrUnavailable)
		eventually(t, func() bool { // until the pauses are seconds
			clocktest.Pass(100 * time.Millisecond)
			return status(t, svc, "a").Failures >= 12
		}, "failures")
		store.Fail(nil)
		asked := fake.Mono()
		eventually(t, func() bool {
			_, err := tag.Next(context.Background())
			if err == nil {
				return true
			}
			require.ErrorIs(t, err, segment.ErrUnavailable)
			if fake.Mono()-asked < 300*time.Millisecond {
				clocktest.Pass(50 * time.Millisecond)
			}
			return false
		}, "an ID")
	})
}

func TestManyTagsDownAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tags = 2000
		store, fake := segmenttest.NewStore(), fakeClock()
		name := func(i int) string { return fmt.Sprintf("tag-%04d", i) }
		for i := range tags {
			store.Set(name(i), 0, 10)
		}
		svc := start(t, segment.Config{Store: store, Clock: fake})
		release := store.Hang()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{}, tags)
		for _, tag := range svc.Tags() {
			go func() {
				_, _ = tag.Next(ctx) // fails: the database is gone
				done <- struct{}{}
			}()
		}
		eventually(t, func() bool {
			waiting := 0
			for _, tag := range svc.Tags() {
				waiting += tag.Waiting()
			}
			return waiting == tags && store.Hung() >= segment.MaxFetchers
		}, "all wait")
		require.Equal(t, segment.MaxFetchers, store.Hung(), "the database is not stormed")
		store.Fail(errDown)
		release()
		eventually(t, func() bool {
			clocktest.Pass(10 * time.Millisecond)
			for _, tag := range svc.Tags() {
				if tag.Status().Failures == 0 {
					return false
				}
			}
			return true
		}, "all back off")
		cancel()
		for range tags {
			<-done
		}
		store.Fail(nil)
		eventually(t, func() bool {
			clocktest.Pass(time.Second)
			for _, tag := range svc.Tags() {
				if !tag.Status().Current.Ready {
					return false
				}
			}
			return true
		}, "all full")
	})
}

func TestHungPassIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, fake, rec := segmenttest.NewStore(), fakeClock(), &recorder{}
		store.Set("order", 0, 10)
		release := store.Hang()
		svc := newService(t, segment.Config{Store: store, Clock: fake, Notify: rec.notify})
		run(t, svc)
		eventually(t, func() bool { return store.Hung() == 1 }, "hung")
		clocktest.Pass(segment.DefaultFetchTimeout)
		eventually(t, func() bool { return couldNotRead(svc) }, "told")
		release()
		eventually(t, func() bool {
			clocktest.Pass(10 * time.Millisecond)
			return svc.Loaded()
		}, "loaded")
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaks := goleak.IgnoreCurrent()
		store, rec := segmenttest.NewStore(), &recorder{}
		store.Set("hung", 0, 10)
		store.Set("full", 0, 10)
		svc := newService(t, segment.Config{Store: store, Notify: rec.notify, Clock: fakeClock()})
		_, err := svc.Lookup([]byte("full"))
		require.ErrorIs(t, err, segment.ErrUnavailable)
		reload(t, svc)
		_, err = lookup(t, svc, "full").Next(t.Context())
		require.ErrorIs(t, err, segment.ErrUnavailable, "before Run nothing is waited for")
		stop := run(t, svc)
		eventually(t, func() bool { _, err := lookup(t, svc, "full").Next(t.Context()); return err == nil }, "running")
		eventually(t, func() bool { return status(t, svc, "full").Next.Ready }, "both ranges")

		store.Hang()
		results, hung := make(chan error, 10), lookup(t, svc, "hung")
		for range cap(results) {
			go func() { _, err := hung.Next(context.Background()); results <- err }()
		}
		eventually(t, func() bool { return lookup(t, svc, "hung").Waiting() == cap(results) }, "all wait")
		stop()
		for range cap(results) {
			err := <-results
			require.ErrorIs(t, err, segment.ErrUnavailable)
			require.NotErrorIs(t, err, context.Canceled)
		}
		require.Empty(t, rec.kinds("hung"), "stopping is no failure")
		require.NoError(t, goleak.Find(leaks))

		next(t, lookup(t, svc, "full")) // what is in memory is still served
		_, err = lookup(t, svc, "hung").Next(t.Context())
		require.ErrorIs(t, err, segment.ErrUnavailable)
		require.Error(t, svc.Run(t.Context()), "a service runs once")
	})
}

func TestNotifyMayCallBack(t *testing.T) {
	store := segmenttest.NewStore()
	store.Set("order", 0, 10)
	var svc *segment.Service
	told := make(chan segment.Status, 10)
	svc = newService(t, segment.Config{Store: store, Notify: func(e segment.Event) {
		if e.Kind == segment.KindTagChanged {
			_ = svc.Reload(context.Background())
			told <- lookup(t, svc, e.Tag).Status()
		}
	}})
	run(t, svc)
	eventually(t, svc.Loaded, "loaded")
	store.Set("order", 0, 20)
	next(t, lookup(t, svc, "order"))
	require.Equal(t, "order", (<-told).Tag)
}

func TestConfigIsValidated(t *testing.T) {
	store, marks := segmenttest.NewStore(), segmenttest.NewHighWater()
	for _, tc := range []struct {
		name  string
		cfg   segment.Config
		wants string
	}{
		{"no store", segment.Config{HighWater: marks}, "Store"},
		{"no marks", segment.Config{Store: store}, "HighWater"},
		{"wait", segment.Config{Store: store, HighWater: marks, Wait: -1}, "Wait"},
		{"refresh", segment.Config{Store: store, HighWater: marks, Refresh: -1}, "Refresh"},
		{"fetch timeout", segment.Config{Store: store, HighWater: marks, FetchTimeout: -1}, "FetchTimeout"},
		{"max step", segment.Config{Store: store, HighWater: marks, MaxStep: -1}, "MaxStep"},
		{"reserve", segment.Config{Store: store, HighWater: marks, Reserve: segment.MaxReserve + 1}, "Reserve"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := segment.New(tc.cfg)
			require.ErrorContains(t, err, tc.wants)
		})
	}
}

// A database that was away at the start is read within a second of its return.
func TestFirstPassAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 0, 10)
		store.Fail(errDown)
		svc := newService(t, segment.Config{Store: store, Clock: fakeClock()})
		run(t, svc)
		time.Sleep(25*time.Second + time.Millisecond)
		store.Fail(nil)
		_, err := svc.Lookup([]byte("order"))
		require.ErrorIs(t, err, segment.ErrUnavailable)
		time.Sleep(time.Second)
		next(t, lookup(t, svc, "order"))
	})
}
