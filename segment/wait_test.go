package segment_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
)

func TestContextCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 0, 1)
		svc := start(t, segment.Config{Store: store, Clock: fakeClock()})
		tag := lookup(t, svc, "order")
		release := store.Hang()

		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { _, err := tag.Next(ctx); result <- err }()
		synctest.Wait()
		require.Equal(t, 1, tag.Waiting(), "a waiter")
		cancel()
		err := <-result
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, segment.ErrUnavailable)
		require.ErrorIs(t, tag.NextN(ctx, make([]int64, 1)), context.Canceled)

		release()
		require.Zero(t, next(t, tag), "the cancelled request's range serves the next one")
	})
}

func TestWaitIsForTheRequestNotForTheID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 0, 10)
		fake := fakeClock()
		svc := start(t, segment.Config{Store: store, Clock: fake, MaxStep: 10})
		tag := lookup(t, svc, "order")

		// Each fetch takes 200 ms. A batch of three ranges would take 600.
		slowFetches(store, 200*time.Millisecond)
		result := make(chan error, 1)
		go func() { result <- tag.NextN(context.Background(), make([]int64, 30)) }()
		require.ErrorIs(t, <-result, segment.ErrUnavailable)
		go func() { result <- tag.NextN(context.Background(), make([]int64, 20)) }()
		require.NoError(t, <-result)
	})
}

func TestWaitExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 0, 10)
		fake, rec := fakeClock(), &recorder{}
		svc := start(t, segment.Config{Store: store, Clock: fake, Notify: rec.notify})
		tag := lookup(t, svc, "order")
		release := store.Hang()

		const callers = 100
		results := make(chan error, callers)
		for range callers {
			go func() { _, err := tag.Next(context.Background()); results <- err }()
		}
		synctest.Wait()
		require.Equal(t, callers, tag.Waiting())
		clocktest.Pass(segment.DefaultWait - 1)
		require.Empty(t, results)
		clocktest.Pass(1)
		for range callers {
			err := <-results
			require.ErrorIs(t, err, segment.ErrUnavailable)
			require.NotErrorIs(t, err, context.Canceled)
		}
		require.Equal(t, 1, store.Fetches("order"), "one fetch for all")

		// The fetch itself is given up after its own time, and tried again.
		clocktest.Pass(segment.DefaultFetchTimeout)
		eventually(t, func() bool { return troubled(svc, segment.ErrStore, "") }, "told")
		release()
		clocktest.Pass(20 * time.Millisecond)
		eventually(t, func() bool { return len(svc.Troubles()) == 0 }, "over")
		require.Zero(t, next(t, tag))
	})
}
