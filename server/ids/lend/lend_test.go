package lend

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/fair"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	numbers = 4096
	noon    = clock.Millis(1_795_262_400_000)
	never   = noon * 2
)

func address(i int) fair.Address { return fair.AddressOf([]byte(strconv.Itoa(i))) }

// Whatever is asked for, by a clock that steps either way, slices of a slot don't overlap, and each is bounded.
func TestSlotsApart(t *testing.T) {
	const longest = 10 * time.Second
	type lent struct {
		Slice
		name string
		of   fair.Address
	}
	for seed := range uint64(20) {
		rnd, table, now, limit := rand.New(rand.NewPCG(seed, 1)), New(numbers, noon, longest), noon-5000, noon+120_000
		var open []lent                  // those that were not given back
		ends := map[int64]clock.Millis{} // of each slot's last slice
		for i := range 3000 {
			now += clock.Millis(rnd.IntN(100))
			if rnd.IntN(200) == 0 {
				now -= clock.Millis(rnd.IntN(3000))
			}
			if n := len(open); n > 0 && rnd.IntN(3) == 0 {
				s, used := open[n-1], open[n-1].From-1+clock.Millis(rnd.IntN(3000))
				open = open[:n-1]
				require.False(t, table.GiveBack(s.name, address(4), used), "another's")
				if table.GiveBack(s.name, s.of, used) {
					ends[s.First] = min(s.Until, used+1)
				}
				require.False(t, table.GiveBack(s.name, s.of, used), "twice")
				continue
			}
			s, free := lent{name: strconv.Itoa(i), of: address(rnd.IntN(4))}, Slots
			if now >= noon {
				free -= table.Lent(now)
			}
			var wait time.Duration
			if s.Slice, wait = table.Lend(s.name, s.of, now, limit); wait > 0 {
				continue
			}
			again, _ := table.Lend(s.name, s.of, now, limit)
			require.Equal(t, s.Slice, again)
			require.GreaterOrEqual(t, s.From, max(now, noon, ends[s.First]))
			require.LessOrEqual(t, s.Until, min(limit, now.Add(longest*time.Duration(free)/Slots)))
			require.True(t, numbers/2 <= s.First && s.First%16 == 0 && s.Last == s.First+15 && s.Last < numbers, "%+v", s)
			ends[s.First] = s.Until
			open = append(open, s)
		}
		require.Greater(t, len(open), 100)
	}
}

// A crowd of processes is lent a slot each, wherever they ask first; one address has no more than there are left.
func TestShares(t *testing.T) {
	for _, crowd := range []struct{ processes, addresses, daemons int }{{400, 1, 8}, {900, 10, 8}, {64, 1, 1}} {
		daemons := make([]*Table, crowd.daemons)
		for i := range daemons {
			daemons[i] = New(numbers, noon, time.Hour)
		}
		for p := range crowd.processes {
			got := false
			for first, i := rand.IntN(crowd.daemons), 0; i < crowd.daemons && !got; i++ {
				_, wait := daemons[(first+i)%crowd.daemons].Lend(strconv.Itoa(p), address(p%crowd.addresses), noon, never)
				got = wait == 0
			}
			require.True(t, got, "process %d of %+v", p, crowd)
		}
	}
	table := New(numbers, noon, 128*time.Second)
	_, wait := table.Lend("early", address(0), noon-1500, never)
	require.Equal(t, 1500*time.Millisecond, wait)
	for i := range 65 {
		s, wait := table.Lend(strconv.Itoa(i), address(0), noon, never)
		require.Equal(t, i == 64, wait > 0, "the %d. of one address", i)
		require.True(t, wait > 0 || s.Until == noon.Add(time.Duration(128-i)*time.Second), "%+v", s)
	}
	_, wait = table.Lend("another", address(1), noon, never)
	require.Zero(t, wait)
	require.Equal(t, 65, table.Lent(noon))
}
