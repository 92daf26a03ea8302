package main

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// dayLater is how far the clocks of the machines here are ahead of ZooKeeper's, so
// that entries that were only just made have not been reported for a day.
const dayLater = 25 * time.Hour

// laterMachine is a machine of the cluster a day later.
func (c *cluster) laterMachine(args ...string) *machine {
	c.t.Helper()
	m := c.machine(append(frequent(), args...)...)
	m.step(dayLater)
	return m
}

// filled makes a root with n entries, all that its layout has.
func (o *onlooker) filled(layout string, n int) {
	o.t.Helper()
	o.create(o.root, "", 0)
	o.create(o.forever, "", 0)
	o.create(o.temporary, "", 0)
	o.set(o.root, rootText(layout, o.forever, o.must(o.forever).created))
	o.each(n, func(i int) error {
		_, err := o.make(o.path(int64(i)), jsonText(o.t, oldEntry(i)), 0)
		return err
	})
}

// oldEntry is what a daemon that is gone has left.
func oldEntry(i int) znode {
	at := clock.MillisOf(time.Now())
	return znode{
		Node: fmt.Sprintf("old-%d", i), IP: "192.0.2.1", Port: fmt.Sprint(8000 + i), Timestamp: at, Ceiling: at.Add(6 * time.Second), Limit: at.Add(worker.DefaultLease),
		Instance: fmt.Sprintf("instance %d", i), Owner: fmt.Sprintf("owner %d", i), Life: 3, State: "active",
	}
}

// All worker IDs of the layout are taken: a new node fails, says what would help,
// and leaves nothing behind. What helps then does.
func TestWorkerIDsExhausted(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		layout     string
		n          int
		datacenter int64
	}{
		{"41+10+12", 1024, 0},
		{"41+5+5+12", 32, 3},
	} {
		t.Run(tc.layout, func(t *testing.T) {
			t.Parallel()
			c := unmade(t)
			o := c.watch()
			o.filled(tc.layout, tc.n)
			before := o.everything()
			m := c.laterMachine("--layout", tc.layout)
			datacenter := []string{"--datacenter", strconv.FormatInt(tc.datacenter, 10)}
			l := m.start(datacenter...)
			l.exits(cli.ExitExhausted)
			l.awaitLog(`"alarm":"workers_closed"`)
			require.Equal(t, before, o.everything())
			for _, says := range []string{
				fmt.Sprintf("worker IDs 0..%d are all taken", tc.n-1),
				fmt.Sprintf("%d entries; the next one comes back at ", tc.n), "leafd worker list", "leafd worker release ID --force",
			} {
				require.Contains(t, l.Log(), says)
			}

			// The owner of 7 may have issued up to a time that is still to come.
			ahead := oldEntry(7)
			ahead.Ceiling = m.now().Add(4 * time.Second)
			o.set(o.path(7), jsonText(t, ahead))
			release := []string{"worker", "release", "7", "--layout", tc.layout}
			c.onMachine(m, release...).Failed(t, cli.ExitFailure, "entry in use", "--force")
			require.Contains(t, c.onMachine(m, append(release, "--force", "--yes")...).OK(t), "Released worker 7")
			require.Equal(t, "released", o.must(o.path(7)).payload(t).State)
			l = m.ready(datacenter...) // it waits
			require.GreaterOrEqual(t, o.must(o.path(7)).payload(t).Floor, ahead.Ceiling, "carried over")
			require.Equal(t, int64(7), l.info().ID)
			layout, err := snowflake.ParseLayout(tc.layout, snowflake.DefaultEpoch)
			require.NoError(t, err)
			for _, id := range l.batch("/api/snowflake/get/a?n=100") {
				parts, err := layout.Decode(id)
				require.NoError(t, err)
				require.GreaterOrEqual(t, parts.Time, ahead.Ceiling)
				require.Equal(t, int64(7), parts.Worker)
				require.Equal(t, tc.datacenter, parts.Datacenter)
			}
			require.Len(t, o.entries(), tc.n)
			require.Equal(t, cli.ExitOK, l.stop())
		})
	}
}

// A worker ID comes back once its limit has passed by the clocks of both the claimant and
// ZooKeeper.
func TestTakenOnceItsLimitHasPassed(t *testing.T) {
	t.Parallel()
	c := unmade(t)
	o := c.watch()
	o.filled("41+5+5+12", 32)
	held := oldEntry(3)
	held.Instance, held.Floor, held.Limit = "i", held.Timestamp.Add(-time.Hour), held.Timestamp.Add(time.Hour)
	o.set(o.path(3), jsonText(t, held)) // passed a day ago, says the claimant; in an hour, says ZooKeeper
	before := o.everything()
	m := c.laterMachine("--layout", "41+5+5+12")
	l := m.start("--startup-timeout", "2s")
	l.exits(cli.ExitExhausted)
	l.awaitLog(fmt.Sprintf("the next one comes back at %s unless its daemon goes on", held.Limit))
	require.Equal(t, before, o.everything())

	held.Limit = held.Timestamp.Add(7 * time.Second)
	o.set(o.path(3), jsonText(t, held))
	l = m.ready() // it waits for ZooKeeper's clock
	require.GreaterOrEqual(t, clock.MillisOf(time.Now()), held.Limit)
	require.Equal(t, int64(3), l.info().ID)
	entry := o.must(o.path(3)).payload(t)
	require.Equal(t, held.Limit, entry.Floor)
	require.Greater(t, entry.Limit, m.now().Add(5*time.Hour))
	require.Len(t, o.entries(), 32)
	require.Equal(t, cli.ExitOK, l.stop())
}
