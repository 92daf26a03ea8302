package snowflake_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/clock/clocktest"
	"github.com/leafd/leafd/snowflake"
)

// snowflake.G5: whoever waits for a used-up millisecond is served in the order of coming,
// also before those that come when the next one has begun. (On the real daemon 64 clients
// that ask for batches all the time left some waiting for seconds.)
func TestWaitersAreServedInOrder(t *testing.T) {
	fake := clocktest.New(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	layout := snowflake.DefaultLayout()
	g, err := snowflake.New(snowflake.Config{Layout: layout, Clock: fake, Fence: openFence{}})
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
		require.Eventually(t, func() bool {
			return fake.Sleepers() == 1 && inQueue() == i // the first one sleeps, the others wait for it
		}, 10*time.Second, time.Millisecond)
	}
	var order []int
	for i := range waiters {
		fake.Advance(time.Millisecond)
		order = append(order, <-served)
		if i < waiters-1 {
			require.Eventually(t, func() bool { return fake.Sleepers() == 1 }, 10*time.Second, time.Millisecond)
		}
	}
	require.True(t, slices.IsSorted(order), "%v", order)
	require.True(t, slices.IsSorted(times), "%v", times)
}

// inQueue counts the goroutines that wait for their turn: that are parked there, for one that
// is on its way may be overtaken.
func inQueue() (n int) {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for goroutine := range strings.SplitSeq(string(stacks), "\n\n") {
		head, calls, _ := strings.Cut(goroutine, "\n")
		if strings.Contains(head, "[select") && strings.Contains(calls, "snowflake.(*Generator).queue(") {
			n++
		}
	}
	return n
}
