package segment_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/segmenttest"
)

// countLooks counts the looks at a table.
func countLooks(store *segmenttest.Store) *atomic.Int64 {
	looks := new(atomic.Int64)
	store.Before(func(_ context.Context, op segmenttest.Op, _ string) error {
		if op == segmenttest.OpFind {
			looks.Add(1)
		}
		return nil
	})
	return looks
}

// A tag that was made by another daemon is served at once, and a hundred requests for
// fifty of them cost two looks.
func TestNewTagsAreFoundAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("old", 0, 100)
		svc := start(t, segment.Config{Store: store, Clock: fakeClock()})
		looks, began := countLooks(store), time.Now()
		store.Set("new", 0, 100)
		tag, err := svc.Find(t.Context(), []byte("new"))
		require.NoError(t, err)
		require.Zero(t, time.Since(began), "without a wait")
		next(t, tag)
		var found sync.WaitGroup
		for i := range 60 {
			name := fmt.Sprint("new-", i%30)
			store.Set(name, 0, 100)
			found.Go(func() {
				_, err := svc.Find(context.Background(), []byte(name))
				require.NoError(t, err)
			})
		}
		found.Wait()
		require.LessOrEqual(t, time.Since(began), 2*time.Second)
		require.EqualValues(t, 2, looks.Load())
		_, err = svc.Find(t.Context(), []byte("old"))
		require.NoError(t, err)
		require.EqualValues(t, 2, looks.Load(), "what is known is not looked up")
	})
}

// Names that aren't there.
func TestInventedNamesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		svc := start(t, segment.Config{Store: store, Clock: fakeClock()})
		looks, began := countLooks(store), time.Now()
		_, err := svc.Find(t.Context(), []byte("invented"))
		require.ErrorIs(t, err, segment.ErrUnknownTag)
		_, err = svc.Find(t.Context(), []byte("invented"))
		require.ErrorIs(t, err, segment.ErrUnknownTag)
		require.Zero(t, testing.AllocsPerRun(100, func() { _, err = svc.Find(t.Context(), []byte("invented")) }), "as often as a client likes")
		require.EqualValues(t, 1, looks.Load(), "it was just looked up")
		require.Zero(t, time.Since(began))

		ctx, stop := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		for i := range 500 { // each invents as many names as it can
			clients.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					_, err := svc.Find(ctx, fmt.Appendf(nil, "invented-%d-%d", i, n))
					require.ErrorIs(t, err, segment.ErrUnknownTag)
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		time.Sleep(10 * time.Second)
		require.LessOrEqual(t, looks.Load(), int64(12), "one a second")
		stop()
		clients.Wait()

		time.Sleep(2 * time.Second)
		store.Set("invented", 0, 100)
		_, err = svc.Find(t.Context(), []byte("invented"))
		require.NoError(t, err)
	})
}

// A look beside passes neither doubles a tag nor outlives Run.
func TestLooksBesidePasses(t *testing.T) {
	store := segmenttest.NewStore()
	svc := newService(t, segment.Config{Store: store})
	stop := run(t, svc)
	eventually(t, svc.Loaded, "tags read")
	for i := range 4 {
		name := fmt.Sprint("new-", i)
		store.Set(name, 0, 100)
		var both sync.WaitGroup
		both.Go(func() { require.NoError(t, svc.Reload(context.Background())) })
		tag, _ := svc.Find(t.Context(), []byte(name))
		both.Wait()
		require.NotNil(t, lookup(t, svc, name))
		if tag != nil {
			require.Same(t, tag, lookup(t, svc, name))
		}
	}
	_, err := svc.Find(t.Context(), []byte("none"))
	require.ErrorIs(t, err, segment.ErrUnknownTag)
	stop()
	_, err = svc.Find(t.Context(), []byte("none-either"))
	require.ErrorIs(t, err, segment.ErrUnknownTag)
}
