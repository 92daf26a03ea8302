package walktest_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/registrytest"
	"github.com/leafd/leafd/test/sessiontest"
	"github.com/leafd/leafd/test/walktest"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
)

// walkOn walks on a ZooKeeper in memory, in the time of a bubble: a walk has its steps, and the
// machine's speed is nothing to it.
func walkOn(t *testing.T, seed uint64, steps int, noCeiling bool) (r walktest.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.NewBubble(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
		r = walktest.Run(t, walktest.Config{
			Seed: seed, Steps: steps, Clock: clk, Speed: 1, NoCeiling: noCeiling, World: registrytest.InMemory(t, clk),
			Daemons: registrytest.Options{Lease: 100 * time.Second}, ShortLease: 40 * time.Second,
			MaxWait: 30 * time.Second, LookTimeout: time.Second, Backups: 3,
		})
		t.Logf("%+v", r)
	})
	return r
}

// P1 and P2 over all that may happen to four machines.
func TestRandomWalkRepeatsNoID(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			r := walkOn(t, seed, 1000, false)
			require.Zero(t, r.Repeats)
			require.Greater(t, r.Issued, 10_000)
			require.Greater(t, r.Lives, 20)
			require.Positive(t, r.Restored)
			require.Greater(t, r.Lent, 100)
		})
	}
}

// The same walk with the ceiling left out, and each crash followed by a rollback and a start
// at once, finds repeats, or it proves nothing.
func TestRandomWalkFindsAMissingCeiling(t *testing.T) {
	t.Parallel()
	require.Positive(t, walkOn(t, 0, 500, true).Repeats)
}

// The same on a real ensemble, in its time. There is one backup at a time, of all its servers.
func TestRandomWalkOnAnEnsemble(t *testing.T) {
	t.Parallel()
	const speed = 20
	ensemble := zookeepertest.StartEnsemble(t, 3)
	world := registrytest.New(t, sessiontest.Servers(t), walktest.Clock(clock.System(), speed), "/walk", ensemble.Addrs()...)
	world.LoseAll = func() { ensemble.Wipe(t) }
	world.SaveAll = func() (restore func()) {
		restored := ensemble.Snapshot(t)
		return func() { restored(t) }
	}
	r := walktest.Run(t, walktest.Config{
		Seed: 7, Steps: 1000, Clock: clock.System(), Speed: speed, NoneBeside: true, World: world, MaxWait: 30 * time.Second, LookTimeout: 300 * time.Millisecond,
		Daemons: registrytest.Options{SessionTimeout: 2 * time.Second, Lease: worker.DefaultLease}, Settle: 8 * time.Second * speed, Backups: 1,
	})
	t.Logf("%+v", r)
	require.Zero(t, r.Repeats)
	require.Greater(t, r.Lives, 20)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(zookeepertest.StopAfter(m)) }
