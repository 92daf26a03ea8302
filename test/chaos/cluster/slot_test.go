package cluster

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/clocktest"
)

// A daemon that starts while its clock is stepped doesn't set it back to where it was:
// the history has it elsewhere.
func TestBootWhileTheClockIsStepped(t *testing.T) {
	t.Parallel()
	clk, err := clocktest.OpenSkewed(filepath.Join(t.TempDir(), "clock"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, clk.Close()) })
	c, h := &Cluster{began: time.Now()}, &host{clk: clk}
	for n := range 1000 {
		booted := make(chan struct{})
		go func() {
			defer close(booted)
			h.boot()
		}()
		c.step(h, time.Duration(n)*time.Hour)
		<-booted
		wall, _ := clk.Wall()
		require.InDelta(t, float64(n), time.Until(time.Unix(0, wall)).Hours(), 0.5)
	}
}
