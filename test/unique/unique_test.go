package unique_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/unique"
)

// TestSetFindsWhatAMapFinds among neighbours, IDs of one block, and the ends of an int64.
func TestSetFindsWhatAMapFinds(t *testing.T) {
	for seed := range uint64(50) {
		var set unique.Set
		seen, want := map[int64]bool{}, []int64(nil)
		random := rand.New(rand.NewPCG(seed, 0))
		for range 300 {
			id := []int64{0, math.MinInt64, math.MaxInt64 - 2000, -1000}[random.IntN(4)] + random.Int64N(2000)
			if seen[id] && len(want) < 10 {
				want = append(want, id)
			}
			seen[id] = true
			set.Take(0, []int64{id})
		}
		ids, repeated := set.Came()
		require.EqualValues(t, 300, ids)
		require.Equal(t, want, repeated)
		require.NotEmpty(t, want)
	}
}
