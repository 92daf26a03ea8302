package cache_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/cache/cachetest"
	"github.com/leafd/leafd/clock"
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
	require.Equal(t, cachetest.Example(r.Timestamp), r)
	if acked == 0 {
		acked = start - 1
	}
	require.Contains(t, []clock.Millis{acked, acked + 1}, r.Timestamp)
	return r.Timestamp
}

// TestKilledAtRandom kills a process that saves without end, over and over on
// one directory.
func TestKilledAtRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	rounds := 100
	if testing.Short() {
		rounds = 20
	}
	var last clock.Millis
	for range rounds {
		p := startChild(t, dir, "")
		p.acked = last
		for range random.IntN(12) {
			require.True(t, p.awaitSave(t))
		}
		// Into a Save, or into the start of the process.
		time.Sleep(time.Duration(random.IntN(4000)) * time.Microsecond)
		require.NoError(t, p.cmd.Process.Kill())
		p.awaitKilled(t)
		survived := requireSurvived(t, dir, p.acked)
		require.GreaterOrEqual(t, survived, last)
		last = survived
	}
	require.Greater(t, last, start)
}

// TestKilledAtEachStep kills a process right before and right after each step of
// its first, second and later Saves and of its start on a record.
func TestKilledAtEachStep(t *testing.T) {
	for _, step := range []string{
		cache.StepCreate, cache.StepWrite, cache.StepSync, cache.StepReplace, cache.StepSyncDir, cache.StepMark,
	} {
		for _, when := range []string{"before ", "after "} {
			for _, nth := range []string{" 1", " 2", " 3", " 4", " 5"} {
				if step == cache.StepMark && nth != " 1" {
					continue // there is one in the life of a Cache
				}
				if step == cache.StepReplace && nth > " 3" {
					continue // enough
				}
				t.Run(when+step+nth, func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					var last clock.Millis
					for range 2 { // on a new directory, then on what that left
						p := startChild(t, dir, when+step+nth)
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
