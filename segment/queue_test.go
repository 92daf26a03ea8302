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
	"github.com/leafd/leafd/test/segmenttest"
)

// fetches records the order in which tags are fetched for, and can hold fetches back.
type fetches struct {
	mu    sync.Mutex
	order []string
	held  map[string]int // how many fetches are held now, by the first letter of their tags
	most  map[string]int // the most at once
	hold  string         // mu protects; the first letter of tags with fetches that hang until they are late
	gate  chan struct{}  // nil, or what all fetches wait for
}

func (f *fetches) before(ctx context.Context, op segmenttest.Op, tag string) error {
	if op != segmenttest.OpFetch {
		return nil
	}
	kind := tag[:1]
	f.mu.Lock()
	f.order = append(f.order, tag)
	hold := kind == f.hold
	if hold {
		f.held[kind]++
		f.most[kind] = max(f.most[kind], f.held[kind])
	}
	f.mu.Unlock()
	if f.gate != nil {
		<-f.gate
	}
	if !hold {
		return nil
	}
	<-ctx.Done()
	f.mu.Lock()
	f.held[kind]--
	f.mu.Unlock()
	return ctx.Err()
}

// of counts the tags of one kind among the first n fetches.
func (f *fetches) of(kind string, n int) (count int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, tag := range f.order[:n] {
		if strings.HasPrefix(tag, kind) {
			count++
		}
	}
	return count
}

func newFetches(store *segmenttest.Store, hold string) *fetches {
	f := &fetches{held: map[string]int{}, most: map[string]int{}, hold: hold}
	store.Before(f.before)
	return f
}

// named makes n tags with names that begin with kind.
func named(store *segmenttest.Store, kind string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%03d", kind, i)
		store.Set(names[i], 0, 100)
	}
	return names
}

// ask has a request wait for an ID of each tag; the IDs are to come.
func ask(t *testing.T, svc *segment.Service, names []string) (came *sync.WaitGroup) {
	t.Helper()
	came = new(sync.WaitGroup)
	for _, name := range names {
		tag := lookup(t, svc, name)
		came.Go(func() {
			_, err := tag.Next(context.Background())
			require.NoError(t, err, name)
		})
	}
	synctest.Wait()
	return came
}

// What requests have given up doesn't come before a tag that one waits for.
func TestTagsThatWereGivenUpComeLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		given, wanted := named(store, "given", 500), named(store, "wanted", 5)
		svc := start(t, segment.Config{Store: store, Clock: fakeClock(), Held: true})
		order := newFetches(store, "")
		order.gate = make(chan struct{}) // the first fetches are those that all fetchers begin with
		for _, name := range given {
			ctx, cancel := context.WithCancel(t.Context())
			tag := lookup(t, svc, name)
			go func() { _, _ = tag.Next(ctx) }()
			synctest.Wait()
			cancel()
		}
		came := ask(t, svc, wanted)
		svc.Release()
		synctest.Wait()
		require.Equal(t, len(wanted), order.of("wanted", segment.MaxFetchers), "first of all")
		close(order.gate)
		came.Wait()
		synctest.Wait()
		require.Equal(t, len(given), order.of("given", len(given)+len(wanted)), "each once, in the end")
	})
}

// However often requests ask and give up while no fetcher is free, the queue grows no longer
// than there are tags.
func TestAskingAgainTakesNoSecondPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		stuck, flood := named(store, "stuck", segment.MaxFetchers), named(store, "flood", 10)
		svc := start(t, segment.Config{Store: store, Clock: fakeClock(), FetchTimeout: time.Hour, Wait: time.Second})
		newFetches(store, "s")
		for _, name := range stuck {
			tag := lookup(t, svc, name)
			go func() { _, _ = tag.Next(t.Context()) }()
		}
		synctest.Wait()
		for range 20 {
			for _, name := range flood {
				tag := lookup(t, svc, name)
				go func() { _, _ = tag.Next(t.Context()) }()
			}
			time.Sleep(2 * time.Second)
		}
		require.LessOrEqual(t, svc.Queued(), 2*len(flood))
	})
}

func TestRequestsAndPrefetchesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		ahead, wanted := named(store, "ahead", 40), named(store, "wanted", 40)
		svc := start(t, segment.Config{Store: store, Clock: fakeClock(), Held: true})
		order := newFetches(store, "")
		var rests []segment.Rest
		for _, name := range ahead {
			rests = append(rests, segment.Rest{Tag: name, Step: 100, Ranges: [][2]int64{{0, 100}}})
		}
		require.NoError(t, svc.Adopt(t.Context(), rests))
		for _, name := range ahead {
			for range 50 {
				next(t, lookup(t, svc, name))
			}
		}
		came := ask(t, svc, wanted)
		svc.Release()
		came.Wait()
		synctest.Wait()
		require.InDelta(t, 20, order.of("ahead", 40), segment.MaxFetchers)
		require.Equal(t, 40, order.of("ahead", 80))
	})
}

// Forty rows are locked for good, forty are free.
func TestTagsThatFailHoldHalfOfTheFetchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		locked, free := named(store, "locked", 40), named(store, "free", 40)
		svc := start(t, segment.Config{Store: store, Clock: fakeClock(), FetchTimeout: time.Second})
		order := newFetches(store, "l")
		for _, name := range locked {
			tag := lookup(t, svc, name)
			go func() { _, _ = tag.Next(t.Context()) }()
		}
		time.Sleep(20 * time.Second) // each has failed
		order.mu.Lock()
		order.most = map[string]int{}
		order.mu.Unlock()
		stop := make(chan struct{})
		defer close(stop)
		for _, name := range locked { // and is asked for all the time
			tag := lookup(t, svc, name)
			go func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(100 * time.Millisecond):
						_, _ = tag.Next(context.Background())
					}
				}
			}()
		}
		time.Sleep(10 * time.Second)
		ask(t, svc, free).Wait()
		order.mu.Lock()
		defer order.mu.Unlock()
		require.Equal(t, segment.MaxFetchers/2, order.most["l"])
	})
}
