package loadtest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The smallest repeated IDs are named; what there is no room for is not said to differ.
func TestRepetitions(t *testing.T) {
	t.Parallel()
	s := &idSet{room: 2001}
	for id := int64(1000); id > 0; id-- {
		s.add([]int64{id, id})
	}
	s.add([]int64{math.MaxInt64, math.MaxInt64, 3})
	u := s.compare("k")
	require.Len(t, u.First, MaxFirst)
	require.Equal(t, Duplicate{ID: 1, Times: 2}, u.First[0])
	u.First = nil
	require.Equal(t, UniqueSet{Key: "k", IDs: 2003, Compared: 2001, Repeated: 1000, Surplus: 1000}, u)
	require.Equal(t, UniqueSet{}, new(idSet).compare(""))
}
