package limits

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGateLooksAtWhatIsAhead(t *testing.T) {
	var g Gate
	require.True(t, g.Enter(50, 10), "larger than the limit, and nothing ahead")
	require.False(t, g.Enter(1, 10))
	require.True(t, g.Enter(1, 0), "no limit")
	require.True(t, g.Enter(1, -1), "no limit")
	g.Leave(50)
	require.EqualValues(t, 2, g.Inside())
	require.True(t, g.Enter(1, 3))
	require.False(t, g.Enter(1, 3))
	g.Leave(3)
	require.Zero(t, g.Inside())
}

// At no moment more is inside than the limit and one more that was admitted at
// the last place, and a refused call causes no other refusal.
func TestGateUnderLoad(t *testing.T) {
	const limit, size, clients, rounds = 8, 3, 16, 20_000
	var g Gate
	var inside, most, entered atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range rounds {
				if !g.Enter(size, limit) {
					continue
				}
				entered.Add(1)
				now := inside.Add(size)
				for {
					m := most.Load()
					if now <= m || most.CompareAndSwap(m, now) {
						break
					}
				}
				inside.Add(-size)
				g.Leave(size)
			}
		})
	}
	wg.Wait()
	require.Zero(t, g.Inside())
	require.LessOrEqual(t, most.Load(), int64(limit+size-1))
	require.Positive(t, entered.Load())
	require.True(t, g.Enter(limit, limit))
}
