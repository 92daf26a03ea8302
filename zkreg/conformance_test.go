package zkreg_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/registrytest"
	"github.com/leafd/leafd/test/sessiontest"
	"github.com/leafd/leafd/test/walktest"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
)

func newWorld(t testing.TB, root string, addrs ...string) *registrytest.World {
	t.Helper()
	w := registrytest.New(t, sessiontest.Servers(t), clock.System(), root, addrs...)
	w.Lease = 6 * time.Second // some requests of several sessions come before its end
	return w
}

func TestConformance(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	registrytest.Run(t, false, func(t testing.TB) *registrytest.World { return newWorld(t, server.NewRoot(t), server.Addr()) })
}

// A majority of three takes each write, and a follower may lag behind.
func TestConformanceOnAnEnsemble(t *testing.T) {
	t.Parallel()
	ensemble := zookeepertest.StartEnsemble(t, 3)
	var worlds atomic.Int64
	registrytest.Run(t, false, func(t testing.TB) *registrytest.World {
		return newWorld(t, fmt.Sprintf("/world%d/leaf", worlds.Add(1)), ensemble.Addrs()...)
	})
}

// The walk of package worker's tests on a real ensemble.
func TestRandomWalkOnAnEnsemble(t *testing.T) {
	t.Parallel()
	const speed = 20
	ensemble := zookeepertest.StartEnsemble(t, 3)
	world := registrytest.New(t, sessiontest.Servers(t), walktest.Clock(clock.System(), speed), "/walk", ensemble.Addrs()...)
	world.LoseAll = func() { ensemble.Wipe(t) }
	r := walktest.Run(t, walktest.Config{
		Seed: 7, Steps: 1000, Clock: clock.System(), Speed: speed, NoneBeside: true, World: world, MaxWait: 30 * time.Second, LookTimeout: 300 * time.Millisecond,
		Daemons: registrytest.Options{SessionTimeout: 2 * time.Second, Settle: 8 * time.Second * speed, Lease: worker.DefaultLease},
	})
	t.Logf("%+v", r)
	require.Zero(t, r.Repeats)
	require.Greater(t, r.Lives, 20)
}
