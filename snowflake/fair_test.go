package snowflake_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/clocktest"
)

// Callers that wait for a used-up millisecond are served in the order of coming,
// also before those that come when the next one has begun. (On the real daemon 64 clients
// that ask for batches all the time left some waiting for seconds.)
func TestWaitersAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		layout := snowflake.DefaultLayout()
		g, err := snowflake.New(snowflake.Config{Layout: layout, Clock: clocktest.NewBubble(noon), Fence: openFence{}})
		require.NoError(t, err)
		const whole = forBatches
		require.NoError(t, g.NextN(t.Context(), make([]int64, whole)))

		const waiters = 5
		served := make(chan int, waiters)
		times := make([]clock.Millis, waiters)
		for i := range waiters {
			go func() {
				dst := make([]int64, whole)
				if err := g.NextN(t.Context(), dst); err != nil {
					t.Error(err)
				}
				parts, err := layout.Decode(dst[0])
				if err != nil {
					t.Error(err)
				}
				times[i] = parts.Time
				served <- i
			}()
			synctest.Wait() // the first one sleeps, the others wait for it
		}
		var order []int
		for range waiters {
			order = append(order, <-served)
		}
		require.True(t, slices.IsSorted(order), "%v", order)
		require.True(t, slices.IsSorted(times), "%v", times)
	})
}
