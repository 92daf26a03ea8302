package worker_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/registrytest"
	"github.com/leafd/leafd/test/walktest"
)

// walkOn walks on a ZooKeeper in memory, in the time of a bubble: a walk has its steps, and the
// machine's speed is nothing to it.
func walkOn(t *testing.T, seed uint64, steps int, noCeiling bool) (r walktest.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.NewBubble(noon)
		r = walktest.Run(t, walktest.Config{
			Seed: seed, Steps: steps, Clock: clk, Speed: 1, NoCeiling: noCeiling, World: registrytest.InMemory(t, clk),
			Daemons: registrytest.Options{Settle: 10 * time.Second, Lease: 40 * time.Second},
			MaxWait: 30 * time.Second, LookTimeout: time.Second,
		})
		t.Logf("%+v", r)
	})
	return r
}

// P1 and P2 over whatever may happen to four machines.
func TestRandomWalkRepeatsNoID(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			r := walkOn(t, seed, 1000, false)
			require.Zero(t, r.Repeats)
			require.Greater(t, r.Issued, 10_000)
			require.Greater(t, r.Lives, 20)
		})
	}
}

// The same walk with the ceiling left out, and each crash followed by a rollback and a start
// at once, finds repeats, or it proves nothing.
func TestRandomWalkFindsAMissingCeiling(t *testing.T) {
	t.Parallel()
	require.Positive(t, walkOn(t, 0, 500, true).Repeats)
}
