package zkreg_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/registrytest"
	"github.com/leafd/leafd/test/sessiontest"
	"github.com/leafd/leafd/test/zookeepertest"
)

func newWorld(t testing.TB, root string, addrs ...string) *registrytest.World {
	t.Helper()
	w := registrytest.New(t, sessiontest.Servers(t), clock.System(), root, addrs...)
	w.Settle = time.Nanosecond
	return w
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
