package metrics

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/segmenttest"
)

// scraped is one scrape: the series by label.
func (i *issued) scraped(t *testing.T, tags map[string]int64) map[string]int64 {
	t.Helper()
	for name, ids := range tags {
		i.see(name, ids)
	}
	all := map[string]int64{}
	i.each(func(tag string, ids int64) {
		_, twice := all[tag]
		require.False(t, twice, "the same series twice")
		all[tag] = ids
	})
	require.Contains(t, all, Rest)
	require.LessOrEqual(t, len(all), MaxIssued+1)
	return all
}

// TestIssuedRandomWalk issues, removes and brings back more tags than are shown, and holds each
// scrape against the one before.
func TestIssuedRandomWalk(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	names := []string{Rest, "\xff", "order"}
	for n := range 2 * MaxIssued {
		names = append(names, fmt.Sprintf("tag-%03d", n))
	}
	i, present := newIssued(), map[string]int64{}
	totals, known, before := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for range 60 {
		for range rng.IntN(100) {
			name := names[rng.IntN(len(names))]
			if _, here := present[name]; here && rng.IntN(5) == 0 {
				delete(present, name)
				continue
			}
			totals[name] += rng.Int64N(1000)
			present[name] = totals[name]
		}
		got := i.scraped(t, present)
		maps.Copy(known, present)
		var all, summed int64
		for _, ids := range known {
			all += ids
		}
		for name, ids := range got {
			summed += ids
			require.NotEqual(t, "\xff", name)
			if _, here := present[name]; here && name != Rest {
				require.Equal(t, present[name], ids, "%s", name)
			}
		}
		for name, ids := range before {
			after, shown := got[name]
			require.True(t, shown && after >= ids, "%s", name)
		}
		require.Equal(t, all, summed)
		before = got
	}
	require.Len(t, before, MaxIssued+1, "the walk has more tags than are shown")
}

// TestIssuedTagsWithoutASeries are counted all the same.
func TestIssuedTagsWithoutASeries(t *testing.T) {
	i := newIssued()
	for _, name := range []string{Rest, "\xff\xfe", string(make([]byte, 513))} {
		got := i.scraped(t, map[string]int64{name: 7})
		require.Len(t, got, 1, "%q", name)
	}
	require.Equal(t, map[string]int64{Rest: 21}, i.scraped(t, nil))
}

func TestBest(t *testing.T) {
	for range 200 {
		values := rand.Perm(rand.IntN(40))
		b := best[int]{n: 10, compare: func(a, b int) int { return a - b }}
		for _, v := range values {
			b.offer(v)
		}
		slices.Sort(values)
		require.Equal(t, values[:min(10, len(values))], append([]int{}, b.all...))
	}
}

// TestIssuedOfAService: a row that is removed, and comes back, on a real service.
func TestIssuedOfAService(t *testing.T) {
	store := segmenttest.NewStore()
	store.Set("order", 0, 1000)
	_, m, reg := newFake(t)
	svc, err := segment.New(segment.Config{Store: store, HighWater: segmenttest.NewHighWater(), Marks: "memory", Wait: time.Minute, Fetched: m.Fetched})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- svc.Run(ctx) }()
	require.Eventually(t, func() bool { return svc.Ready() == nil }, 10*time.Second, time.Millisecond)
	m.SetSegments(svc)
	issue := func(n int) {
		t.Helper()
		tag, err := svc.Find(ctx, []byte("order"))
		require.NoError(t, err)
		_, err = tag.NextRanges(ctx, n, nil)
		require.NoError(t, err)
	}
	series := func() (order, rest float64) {
		t.Helper()
		got := scrape(t, reg)
		return got["leafd_segment_ids_issued_total{tag=order}"], got["leafd_segment_ids_issued_total{tag=_other}"]
	}
	requireSeries := func(order, rest float64) {
		t.Helper()
		gotOrder, gotRest := series()
		require.InDelta(t, order, gotOrder, 0)
		require.InDelta(t, rest, gotRest, 0)
	}
	issue(30)
	requireSeries(30, 0)
	require.InDelta(t, 1, scrape(t, reg)["leafd_segment_fetch_duration_seconds"], 0)

	_, err = store.Delete(ctx, "order", nil)
	require.NoError(t, err)
	svc.Deleted("order")
	requireSeries(30, 0) // as it was
	store.Set("order", 1_000_000, 1000)
	svc.Created("order")
	issue(5)
	requireSeries(35, 0)
	stop()
	require.NoError(t, <-ended)
}
