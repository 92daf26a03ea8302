package worker_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/registrytest"
	"github.com/leafd/leafd/test/walktest"
)

// walkOn walks on the registry that there is, on a ZooKeeper in memory.
func walkOn(t *testing.T, seed uint64, speed, steps int, noCeiling bool) walktest.Result {
	t.Helper()
	return walktest.Run(t, walktest.Config{
		Seed: seed, Steps: steps, Speed: speed, NoCeiling: noCeiling, World: registrytest.InMemory(t, walktest.Clock(speed)),
		Daemons: registrytest.Options{Settle: 10 * time.Second, Lease: 40 * time.Second},
		MaxWait: 30 * time.Second, LookTimeout: time.Second,
	})
}

// P1 and P2 over whatever may happen to four machines.
func TestRandomWalkRepeatsNoID(t *testing.T) {
	t.Parallel() // walks wait most of their time
	for seed := range uint64(3) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			r := walkOn(t, seed, 100, 1000, false)
			t.Logf("%+v", r)
			require.Zero(t, r.Repeats)
			require.Greater(t, r.Issued, 10_000)
			require.Greater(t, r.Lives, 20)
		})
	}
}

// The same walk with the ceiling left out, and each crash followed by a rollback and a start
// at once, finds repeats, or it proves nothing. How the goroutines interleave is not in the
// seed: a walk may miss them, above all on a busy machine, where the clock has outrun a
// rollback before a start is through. So each pair of walks is slower than the one before.
func TestRandomWalkFindsAMissingCeiling(t *testing.T) {
	t.Parallel()
	var repeats atomic.Int64
	for seed, speed := uint64(0), 100; repeats.Load() == 0; seed, speed = seed+2, max(speed/2, 5) {
		require.Less(t, seed, uint64(100), "a hundred walks without a ceiling repeated no ID")
		t.Run("two", func(t *testing.T) {
			for i := range uint64(2) {
				t.Run(strconv.FormatUint(seed+i, 10), func(t *testing.T) {
					t.Parallel()
					r := walkOn(t, seed+i, speed, 500, true)
					t.Logf("%+v", r)
					repeats.Add(int64(r.Repeats))
				})
			}
		})
	}
}
