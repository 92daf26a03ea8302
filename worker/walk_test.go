package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/worker/registrytest"
	"github.com/leafd/leafd/worker/walktest"
)

// walkOn walks on a registry in memory.
func walkOn(t *testing.T, seed uint64, steps int, noCeiling bool) walktest.Result {
	t.Helper()
	const speed = 100
	clk := walktest.Clock(speed)
	model := registrytest.NewModel(clk)
	model.Least = 40 * time.Second
	model.Init(walktest.Layout())
	return walktest.Run(t, walktest.Config{
		Seed: seed, Steps: steps, Speed: speed, NoCeiling: noCeiling,
		Open: func(node string, _ clock.Clock) (worker.Registry, func(), error) {
			m := model.Open(node, node, registrytest.Options{Layout: walktest.Layout(), Settle: 10 * time.Second})
			return m, m.Kill, nil
		},
		Directory: model.Directory(), Down: model.Down, Up: model.Up, Wipe: model.Wipe, Expire: model.Expire,
		Lease: model.Least, MaxWait: 30 * time.Second, LookTimeout: 20 * time.Millisecond,
	})
}

// P1 and P2 over whatever may happen to four machines.
func TestRandomWalkRepeatsNoID(t *testing.T) {
	for seed := range uint64(3) {
		r := walkOn(t, seed, 1000, false)
		t.Logf("seed %d: %+v", seed, r)
		require.Zero(t, r.Repeats)
		require.Greater(t, r.Issued, 10_000)
		require.Greater(t, r.Lives, 20)
	}
}

// The same walk with the ceiling left out finds repeats, or it proves nothing. How
// the goroutines interleave is not in the seed: one walk in some may miss them.
func TestRandomWalkFindsAMissingCeiling(t *testing.T) {
	for seed := range uint64(100) {
		r := walkOn(t, seed, 500, true)
		t.Logf("seed %d: %+v", seed, r)
		if r.Repeats > 0 {
			return
		}
	}
	t.Fatal("a hundred walks without a ceiling repeated no ID")
}
