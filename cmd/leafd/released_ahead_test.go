package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

// A daemon with a clock that was an hour ahead has given its worker ID back: new nodes pass it
// over, and get others. Where there is no other, they say when it comes back; the clock of
// none is refused for it.
func TestReleasedAheadOfTheClockIsSkipped(t *testing.T) {
	t.Parallel()
	layout := []string{"--layout", twoWorkers}
	c := onShared(t, layout...)
	o := c.watch()
	wrong := c.machine(append(frequent(), layout...)...)
	wrong.step(time.Hour)
	l := wrong.ready("--release-on-stop")
	require.Zero(t, l.info().ID)
	ids := l.batch("/api/snowflake/get/a?n=1000")
	require.Equal(t, cli.ExitOK, l.stop())
	path, before := o.entry()
	released := before.payload(t)
	require.Equal(t, "released", released.State)

	healthy := c.machine(append(frequent(), layout...)...).ready()
	require.EqualValues(t, 1, healthy.info().ID)
	require.False(t, healthy.clockAlarms(), healthy.Log())
	require.Greater(t, released.Limit, wrong.now().Add(-10*time.Minute))
	ids = append(ids, healthy.batch("/api/snowflake/get/a?n=1000")...)
	next := c.machine(append(frequent(), layout...)...).start()
	next.exits(cli.ExitExhausted)
	require.True(t, next.hasLogged(`"alarm":"workers_closed"`, released.Limit.String()), next.Log())
	require.Equal(t, before, o.must(path))
	require.Equal(t, []string{healthy.addr}, o.live(), "nothing is left behind")
	requireDistinct(t, ids)
	require.Equal(t, cli.ExitOK, healthy.stop())
}
