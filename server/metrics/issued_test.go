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

// tagged is what a tag has issued, and at which rate.
type tagged struct {
	ids  int64
	rate float64
}

// scraped is one scrape: the series by label.
func (i *issued) scraped(t *testing.T, now time.Duration, tags map[string]tagged) map[string]int64 {
	t.Helper()
	i.begin(now)
	for name, tag := range tags {
		i.see(name, tag.ids, tag.rate)
	}
	all := map[string]int64{}
	i.end(func(tag string, ids int64) {
		require.NotContains(t, all, tag, "the same series twice")
		all[tag] = ids
	})
	require.Contains(t, all, Rest)
	require.LessOrEqual(t, len(all), MaxTags+1, "metrics.T4")
	return all
}

func sum(series map[string]int64) int64 {
	var all int64
	for _, ids := range series {
		all += ids
	}
	return all
}

// TestIssuedRandomWalk issues, removes, brings back and changes the rates of more
// tags than are shown, and holds each scrape against the one before.
func TestIssuedRandomWalk(t *testing.T) {
	const tags, steps = 2 * MaxTags, 300
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	names := []string{Rest, "\xff", "order"}
	for n := range tags {
		names = append(names, fmt.Sprintf("tag-%03d", n))
	}
	var (
		i       = newIssued()
		present = map[string]tagged{}
		totals  = map[string]tagged{} // of those that are gone
		known   = map[string]int64{}  // as a scrape has seen them last
		before  = map[string]int64{}
		now     time.Duration
		changes int
	)
	for range steps {
		for range rng.IntN(20) {
			name := names[rng.IntN(len(names))]
			tag, here := present[name]
			switch what := rng.IntN(10); {
			case !here:
				present[name] = totals[name]
			case what == 0:
				totals[name] = tag
				delete(present, name)
			case what < 4:
				tag.rate = float64(rng.IntN(100))
				present[name] = tag
			default:
				tag.ids += rng.Int64N(1000)
				present[name] = tag
			}
		}
		now += time.Duration(rng.Int64N(int64(2 * rankEvery)))
		got := i.scraped(t, now, present)

		grown := map[string]int64{}
		var all int64
		fresh := 0
		for name, tag := range present {
			grown[name] = tag.ids - known[name]
			if _, seen := known[name]; !seen {
				fresh++
			}
		}
		for name, ids := range got {
			if name == Rest {
				continue
			}
			require.Contains(t, present, name, "a tag that is gone is shown")
			require.NotEqual(t, "\xff", name, "metrics.T5")
			was, shown := before[name]
			_, seen := known[name]
			switch {
			case shown:
				require.Equal(t, was+grown[name], ids, "metrics.T1: %s", name)
			case seen:
				require.Zero(t, ids, "metrics.T1: %s is shown from here on", name)
				changes++
			case ids == 0 && len(before)-1+fresh > MaxTags:
				// All places were taken when it was looked at, and one came free in
				// this very scrape: its IDs are among the rest already.
			default:
				require.Equal(t, grown[name], ids, "metrics.T1: %s was never counted elsewhere", name)
			}
		}
		for name, tag := range present {
			known[name] = tag.ids
		}
		for _, ids := range known {
			all += ids
		}
		require.GreaterOrEqual(t, got[Rest], before[Rest], "metrics.T2")
		require.Equal(t, all, sum(got), "metrics.T3")
		before = got
	}
	require.Greater(t, changes, 30, "the walk changes what is shown")
}

func TestIssuedShowsTheBusiest(t *testing.T) {
	i := newIssued()
	tags := map[string]tagged{}
	for n := range MaxTags {
		tags[fmt.Sprintf("slow-%d", n)] = tagged{ids: 10, rate: 10}
	}
	now := 10 * time.Minute
	first := i.scraped(t, now, tags)
	require.Len(t, first, MaxTags+1)

	for n := range 5 {
		tags[fmt.Sprintf("fast-%d", n)] = tagged{ids: 100, rate: 21}
	}
	tags["twice"] = tagged{ids: 100, rate: 20}
	got := i.scraped(t, now+rankEvery-1, tags)
	require.Equal(t, int64(600), got[Rest], "until it is due")
	require.Equal(t, slices.Sorted(maps.Keys(first)), slices.Sorted(maps.Keys(got)))

	got = i.scraped(t, now+rankEvery, tags)
	require.Len(t, got, MaxTags+1)
	for n := range 5 {
		require.Contains(t, got, fmt.Sprintf("fast-%d", n))
	}
	require.NotContains(t, got, "twice", "not much busier than the others")
	require.Equal(t, int64(600+5*10), got[Rest], "the new ones start at 0, the old ones leave theirs")
	require.Zero(t, got["fast-0"])

	// Idle ones give way to tags that are worth it only.
	for name, tag := range tags {
		tag.rate = 0
		tags[name] = tag
	}
	tags["dribble"] = tagged{ids: 1, rate: leastRate / 2.0}
	got = i.scraped(t, now+2*rankEvery, tags)
	require.NotContains(t, got, "dribble")

	// Room is filled at once.
	delete(tags, "fast-0")
	got = i.scraped(t, now+2*rankEvery+1, tags)
	require.Contains(t, got, "dribble")
	require.Len(t, got, MaxTags+1)
}

// TestIssuedTagsWithoutASeries are counted all the same (metrics.T5).
func TestIssuedTagsWithoutASeries(t *testing.T) {
	i := newIssued()
	for _, name := range []string{Rest, "\xff\xfe", string(make([]byte, 129))} {
		got := i.scraped(t, 0, map[string]tagged{name: {ids: 7, rate: 1e9}})
		require.Len(t, got, 1, "%q", name)
	}
	require.Equal(t, map[string]int64{Rest: 21}, i.scraped(t, rankEvery, nil))
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
	svc, err := segment.New(segment.Config{Store: store, HighWater: segmenttest.NewHighWater(), Wait: time.Minute, Fetched: m.Fetched})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- svc.Run(ctx) }()
	require.Eventually(t, svc.Loaded, 10*time.Second, time.Millisecond)
	m.SetSegments(svc)
	issue := func(n int) {
		t.Helper()
		tag, err := svc.Lookup([]byte("order"))
		require.NoError(t, err)
		require.NoError(t, tag.NextN(ctx, make([]int64, n)))
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
	require.NoError(t, svc.Reload(ctx, "order"))
	requireSeries(0, 30) // 0: it is shown no longer
	store.Set("order", 1_000_000, 1000)
	require.NoError(t, svc.Reload(ctx))
	issue(5)
	requireSeries(0, 35) // it is shown from here on
	issue(7)
	requireSeries(7, 35)
	stop()
	require.NoError(t, <-ended)
}
