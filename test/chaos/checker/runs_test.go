package checker

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/chaos/history"
)

// The set against a map, over what an hour of leafd looks like: mostly new IDs in
// short runs, near each other, in any order.
func TestSetAgainstAMap(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		var set set
		seen := map[int64]bool{}
		for sweep := 0; ; sweep++ {
			twice := []int64{}
			for range 1 + rnd.IntN(50) {
				run := history.Run{Lo: rnd.Int64N(20_000_000), N: 1 + rnd.Int64N(30)}
				set.add(run)
				for id := run.Lo; id <= run.Last(); id++ {
					if seen[id] {
						twice = append(twice, id)
					}
					seen[id] = true
				}
			}
			got := set.sweep(1 << 20)
			if len(twice) > 0 {
				slices.Sort(twice)
				require.NotEmpty(t, got, "seed %d", seed)
				require.Subset(t, twice, got)
				require.Equal(t, twice[0], got[0], "the lowest is named")
				break
			}
			require.Empty(t, got, "seed %d", seed)
			require.Equal(t, int64(len(seen)), set.ids)
			for i, level := range set.levels {
				require.True(t, slices.IsSortedFunc(level, func(a, b history.Run) int { return int(a.Lo - b.Lo) }))
				require.True(t, i == 0 || 2*len(level) < len(set.levels[i-1]))
			}
			if sweep > 2000 {
				break
			}
		}
	}
}

// What is dense costs next to nothing: a range of a tag, among any clients in any order.
func TestDenseIDsAreOneRun(t *testing.T) {
	const ids, most = 1_000_000, 10
	order := rand.New(rand.NewPCG(1, 1)).Perm(ids)
	var set set
	for i, id := range order {
		set.add(history.Run{Lo: int64(id), N: 1})
		if i%10_000 == 0 {
			require.Empty(t, set.sweep(most))
		}
	}
	require.Empty(t, set.sweep(most))
	for _, id := range order[:1000] {
		set.add(history.Run{Lo: int64(id), N: 1})
		require.Equal(t, []int64{int64(id)}, set.sweep(most))
	}
	require.Equal(t, int64(ids+1000), set.ids)
	total := 0
	for _, level := range set.levels {
		total += len(level)
	}
	require.Equal(t, 1, total)
}
