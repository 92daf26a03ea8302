package cache_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/worker"
)

// requireSurvived opens dir after a process that acknowledged acked was killed:
// its record must be there, or the one it was saving.
func requireSurvived(t *testing.T, dir string, acked clock.Millis) clock.Millis {
	t.Helper()
	c, err := cache.Open(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for _, name := range names(t, dir) {
		require.False(t, strings.HasPrefix(name, ".worker.json"), "left behind: %s", name)
	}
	r, err := c.Load()
	if errors.Is(err, worker.ErrNoRecord) && acked == 0 {
		return 0
	}
	require.NoError(t, err)
	if acked == 0 {
		acked = start - 1
	}
	if r.MaybeStale { // killed in the middle of a write
		require.Equal(t, acked, r.Timestamp)
		r.MaybeStale = false
	}
	require.Contains(t, []clock.Millis{acked, acked + 1}, r.Timestamp)
	require.Equal(t, cachetest.Example(r.Timestamp), r)
	return r.Timestamp
}

// TestKilledAtEachStep kills a process right before and right after each step of its
// start and of its first Saves, on a new directory and, most, on what that left.
func TestKilledAtEachStep(t *testing.T) {
	for _, tc := range []struct {
		step       string
		nth, lives int
	}{
		{cache.StepCreate, 1, 2},
		{cache.StepCreate, 2, 1}, // a first Save's; there is none where there is a record
		{cache.StepWrite, 5, 2},
		{cache.StepSync, 7, 2},
		{cache.StepReplace, 1, 2},
		{cache.StepSyncDir, 3, 2},
		{cache.StepSyncDir, 4, 1},
		{cache.StepMark, 1, 2},
	} {
		for _, when := range []string{"before", "after"} {
			for nth := range tc.nth {
				name := fmt.Sprintf("%s %s %d", when, tc.step, nth+1)
				t.Run(fmt.Sprintf("%s in %d lives", name, tc.lives), func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					var last clock.Millis
					for range tc.lives {
						p := startChild(t, dir, name)
						p.acked = last
						p.awaitKilled(t)
						survived := requireSurvived(t, dir, p.acked)
						require.GreaterOrEqual(t, survived, last)
						last = survived
					}
				})
			}
		}
	}
}
