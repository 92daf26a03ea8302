package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/test/clitest"
)

// overview is the daemon's GET /api/overview.
func (l *child) overview() views.Overview {
	l.t.Helper()
	a := l.mustGet("/api/overview")
	require.Equal(l.t, http.StatusOK, a.status, a.body)
	return clitest.FromJSON[views.Overview](l.t, a.body)
}

// The overview never waits for ZooKeeper: it shows the workers last seen, and says
// how old that is.
func TestOverviewWithoutZooKeeper(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	m, proxy := g.behindProxy()
	l := m.ready(often()...)
	require.Eventually(t, func() bool { return l.overview().Workers.Live == 1 }, time.Minute, 20*time.Millisecond)
	o := l.overview()
	require.Equal(t, "connected", o.Guards.Registry)
	require.False(t, o.Guards.RegistryFailing)
	require.Equal(t, m.addr, o.Workers.List[0].Node)

	proxy.Blackhole(t, true)
	require.Eventually(t, func() bool {
		o = l.overview()
		return o.Workers.Error == "registry_unreachable" && o.Guards.RegistryFailing
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, 1, o.Workers.Total, "as last seen")
	require.True(t, o.Workers.Stale)
	require.Less(t, o.Workers.AsOf, o.Time)
	require.Equal(t, "degraded", o.Ready.Status)

	proxy.Blackhole(t, false)
	require.Eventually(t, func() bool {
		o = l.overview()
		return !o.Workers.Stale && o.Guards.Registry == "connected" && !o.Guards.RegistryFailing
	}, time.Minute, 20*time.Millisecond)
}
