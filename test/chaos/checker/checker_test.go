package checker

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The checker against a map: answers of a few IDs each, near each other, until one comes twice.
func TestCompareAgainstAMap(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		var c Checker
		seen, twice := map[int64]bool{}, map[int64]bool{}
		for len(twice) == 0 {
			for by := range 1 + rnd.IntN(50) {
				var ids []int64
				for id, n := rnd.Int64N(2_000_000), rnd.IntN(30); n >= 0; n-- {
					if seen[id] {
						twice[id] = true
					}
					seen[id] = true
					ids = append(ids, id)
					id += 1 + rnd.Int64N(2)
				}
				c.Add("tag", ids, by)
			}
			err := c.Compare()
			if len(twice) == 0 {
				require.NoError(t, err)
				continue
			}
			var found *TwiceError
			require.ErrorAs(t, err, &found)
			require.True(t, twice[found.ID], err)
		}
	}
}

// A range of a tag is one run, whichever clients asked in whatever order.
func TestDenseIDsAreOneRun(t *testing.T) {
	const ids = 100_000
	var c Checker
	for i, id := range rand.New(rand.NewPCG(1, 1)).Perm(ids) {
		c.Add("tag", []int64{int64(id)}, 1)
		if i%10_000 == 0 {
			require.NoError(t, c.Compare())
		}
	}
	require.NoError(t, c.Compare())
	require.Len(t, c.streams["tag"].old, 1)
	require.EqualValues(t, ids, c.IDs())
	c.Add("tag", []int64{ids / 2}, 2)
	require.EqualError(t, c.Compare(), "tag: 50000 was issued twice, by processes 1 and 2")
}
