package segment_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/segmenttest"
)

// IDs are handed out while another goroutine holds every lock there is.
func TestHotPathTakesNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 0, 1_000_000)
		svc := start(t, segment.Config{Store: store, Clock: fakeClock(), Refresh: 1000 * time.Hour})
		tag := lookup(t, svc, "order")
		next(t, tag)
		unlock := svc.LockAll(tag)
		served := make(chan error, 1)
		go func() {
			found, err := svc.Lookup([]byte("order"))
			for range 1000 {
				if err == nil {
					_, err = found.Next(context.Background())
				}
				if err == nil {
					err = found.NextN(context.Background(), make([]int64, 10))
				}
			}
			served <- err
		}()
		select {
		case err := <-served:
			unlock()
			require.NoError(t, err)
		case <-time.After(patience):
			unlock()
			require.Fail(t, "the hot path waits for a lock")
		}
		require.EqualValues(t, 11_001, tag.Status().Issued)
	})
}

// With a hundred thousand tags, and some of them under load, looking at all of
// them hands out no ID, starts no fetch, and keeps no caller from being served.
func TestScrapeUsesNoID(t *testing.T) {
	const tags, used, callers, perCaller = 100_000, 50, 4, 5000
	store := segmenttest.NewStore()
	for i := range tags {
		store.Set(fmt.Sprintf("tag-%06d", i), 0, 1000)
	}
	svc := start(t, segment.Config{Store: store, MaxStep: 1000, Wait: patience})
	var stop atomic.Bool
	var scrapes sync.WaitGroup
	look := func(f func()) {
		scrapes.Go(func() {
			for !stop.Load() {
				f()
			}
		})
	}
	look(func() {
		n := 0
		for st := range svc.Used {
			if n++; st.Issued < 0 {
				t.Errorf("%s: %d issued", st.Tag, st.Issued)
			}
		}
		if n > used {
			t.Errorf("%d tags are said to be used", n)
		}
	})
	look(func() { svc.Status() })
	look(func() { svc.SampleAll() })

	ids := make([][]int64, callers)
	var load sync.WaitGroup
	for c := range callers {
		load.Go(func() {
			for i := range perCaller {
				tag, err := svc.Lookup(fmt.Appendf(nil, "tag-%06d", i%used*1000))
				if err == nil {
					var id int64
					if id, err = tag.Next(context.Background()); i%used == 0 {
						ids[c] = append(ids[c], id)
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	load.Wait()
	stop.Store(true)
	scrapes.Wait()

	first := slices.Concat(ids...)
	slices.Sort(first)
	require.Len(t, first, callers*perCaller/used)
	for i, id := range first {
		require.EqualValues(t, i, id, "none is missing")
	}
	var issued int64
	for st := range svc.Used {
		issued += st.Issued
	}
	require.EqualValues(t, callers*perCaller, issued)
	require.Zero(t, store.Fetches("tag-000001"))
	require.False(t, lookup(t, svc, "tag-000001").HasBuffer())
}
