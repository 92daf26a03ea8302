package metrics

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
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
