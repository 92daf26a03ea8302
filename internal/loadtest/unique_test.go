package loadtest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asked adds IDs as the answer to a request.
func (s *idSet) asked(client int, request int64, ids ...int64) {
	s.add(Place{Client: client, Request: request, At: time.Duration(request) * time.Second}, ids)
}

func TestRepetitionsAreFoundWithBothRequests(t *testing.T) {
	t.Parallel()
	s := newIDSet(4096)
	s.asked(1, 7, 5, 6, 7, math.MaxInt64)
	s.asked(2, 3, 8, 6) // sooner, and noted later
	s.asked(3, 9, 0, 6, math.MaxInt64)
	require.Equal(t, UniqueSet{
		Key: "k", IDs: 9, Compared: 9, Repeated: 2, Surplus: 3,
		First: []Duplicate{
			{ID: 6, Times: 3, Places: [2]Place{{2, 3, 3 * time.Second}, {1, 7, 7 * time.Second}}},
			{ID: math.MaxInt64, Times: 2, Places: [2]Place{{1, 7, 7 * time.Second}, {3, 9, 9 * time.Second}}},
		},
	}, s.compare("k"))
	require.Equal(t, UniqueSet{}, newIDSet(4096).compare(""))
}

func TestOnlyTheSmallestRepetitionsAreNamed(t *testing.T) {
	t.Parallel()
	s := newIDSet(4096)
	for id := int64(1000); id > 0; id-- {
		s.asked(0, 2000-id, id, id)
	}
	u := s.compare("")
	require.Equal(t, int64(1000), u.Repeated)
	require.Len(t, u.First, MaxFirst)
	for i, d := range u.First {
		require.Equal(t, int64(i+1), d.ID)
	}
}

// TestSampleOfManyIDs: where the IDs don't fit, both appearances of one are compared or
// neither is, however far they are apart, and no more is claimed than was compared.
func TestSampleOfManyIDs(t *testing.T) {
	t.Parallel()
	const room, all = 1 << 17, 1 << 20
	for name, id := range map[string]func(i int64) int64{
		"in a row":          func(i int64) int64 { return i },
		"one a millisecond": func(i int64) int64 { return i << 22 },
		"4096 of ten each":  func(i int64) int64 { return i/4096<<22*10 | i%4096 },
		"random":            func(i int64) int64 { return rand.New(rand.NewPCG(1, uint64(i))).Int64() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newIDSet(room)
			for i := range int64(all) {
				s.asked(0, i, id(i))
			}
			for i := range int64(all) {
				s.asked(1, i, id(i))
			}
			u := s.compare("")
			require.Equal(t, int64(2*all), u.IDs)
			require.LessOrEqual(t, u.Compared, int64(room))
			require.Greater(t, u.Compared, int64(room/8))
			require.Equal(t, u.Compared, 2*u.Repeated, "each came twice, and both were compared")
			require.Equal(t, u.Repeated, u.Surplus)
			for _, d := range u.First {
				require.Equal(t, int64(2), d.Times)
				require.Equal(t, d.Places[0].Request, d.Places[1].Request)
			}
		})
	}
}

// TestNoRoomForOneID: what was not compared is not said to differ.
func TestNoRoomForOneID(t *testing.T) {
	t.Parallel()
	const few = 32
	s := newIDSet(few)
	for range 2 * few {
		s.asked(0, 1, 5)
	}
	u := s.compare("")
	require.Equal(t, int64(2*few), u.IDs)
	require.Zero(t, u.Compared+u.Repeated)
}
