package proctest

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// With a thread for each processor that computes meanwhile, a thread gets less than it
// asks for; a machine that other processes share never counts as idle, so that only
// this half can be required.
func TestBusyMachineIsNotIdle(t *testing.T) {
	var stop atomic.Bool
	defer stop.Store(true)
	for range 3 * runtime.NumCPU() {
		go func() {
			runtime.LockOSThread()
			for !stop.Load() {
			}
		}()
	}
	runtime.GOMAXPROCS(4 * runtime.NumCPU())
	defer runtime.GOMAXPROCS(runtime.NumCPU())
	require.False(t, idle(500*time.Millisecond))
}
