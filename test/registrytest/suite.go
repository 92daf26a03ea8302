package registrytest

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// suiteTest is one test of the suite.
type suiteTest struct {
	name string
	run  func(t *testing.T, w *World)
}

// Run is what every worker.Registry, and the zkreg.Directory beside it, keeps under a Worker that
// starts, runs and stops. open returns an empty World. Where that is in memory, each test is in a
// bubble of testing/synctest, and those are run, too, that have minutes and days pass.
func Run(t *testing.T, inMemory bool, open func(t testing.TB) *World) {
	runAll(t, inMemory, open, []suiteTest{ // which make the cluster themselves
		{"an empty registry", testEmpty},
	})
	standing := func(t testing.TB) *World {
		w := open(t)
		w.Init(snowflake.DefaultLayout())
		return w
	}
	runAll(t, inMemory, standing, []suiteTest{
		{"first claims at once", testFirstClaims},
		{"own again", testOwnAgain},
		{"release", testRelease},
		{"live set", testLive},
		{"data lost: all come back at once", testDataLostAll},
	})
	if inMemory {
		runAll(t, inMemory, standing, []suiteTest{
			{"what settles, and for how long", testSettling},
			{"data lost: a piece that has ended", testDataLostLate},
		})
	}
}

func runAll(t *testing.T, inMemory bool, open func(t testing.TB) *World, tests []suiteTest) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // most of them wait for a session to end
			run := func(t *testing.T) { test.run(t, open(t)) }
			if inMemory {
				synctest.Test(t, run)
			} else {
				run(t)
			}
		})
	}
}

func testEmpty(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{})
	err := d.until(worker.EventNoCluster)
	require.ErrorIs(t, err, worker.ErrNoCluster, "only an operator makes one")
	require.ErrorContains(t, err, "it has lost its data, or the ensemble is new")
	require.Empty(t, entries(t, w))
	_, err = d.cache.Load()
	require.ErrorIs(t, err, worker.ErrNoRecord)
	w.Init(snowflake.DefaultLayout())
	_, err = w.Directory().Release(patient(t), 0, true)
	require.ErrorIs(t, err, worker.ErrNoEntry)
	require.NoError(t, d.running().report())
}

// In the Java Leaf every racer of the first start has worker 0.
func testFirstClaims(t *testing.T, w *World) {
	const n = 16
	daemons := make([]*daemon, n)
	for i := range daemons {
		daemons[i] = fresh(t, w, fmt.Sprintf("10.0.0.%d", i), Options{})
	}
	for i, err := range together(t, daemons) {
		require.NoError(t, err, i)
	}
	requireOneEach(t, w, daemons)
	for _, d := range daemons {
		require.NoError(t, d.report())
		require.Less(t, d.ID(), int64(n), "the lowest ones")
		require.Equal(t, daemons[0].Record().Cluster, d.Record().Cluster)
	}
	for _, e := range entries(t, w) {
		require.True(t, e.Live)
	}
	require.Empty(t, w.Hints())
}

func testOwnAgain(t *testing.T, w *World) {
	fresh(t, w, "other", Options{}).running()
	d := fresh(t, w, "a", Options{}).running()
	require.NoError(t, d.report())
	before := d.Record()
	d.stop()
	w.Init(snowflake.DefaultLayout()) // nothing new
	stopped := entryOf(t, w, 1)
	ip, port, err := net.SplitHostPort(d.address())
	require.NoError(t, err)
	require.Equal(t, worker.Entry{
		WorkerID: 1, Node: "a", IP: ip, Port: port, State: worker.StateActive, Timestamp: stopped.Timestamp, Ceiling: stopped.Ceiling,
		Owner: d.cfg.Owner, Life: 1, Instance: before.Instance, Floor: before.Floor, Limit: stopped.Limit,
	}, stopped)
	require.LessOrEqual(t, stopped.Ceiling, w.Now(), "a clean stop: the next start waits for nothing")

	d.running()
	r := d.Record()
	require.Equal(t, []any{int64(1), before.Cluster, before.Instance, before.Floor}, []any{r.WorkerID, r.Cluster, r.Instance, r.Floor})
	require.GreaterOrEqual(t, r.Limit, stopped.Limit, "a limit never falls")
	require.NoError(t, d.report())
	e := entryOf(t, w, 1)
	require.Equal(t, d.cfg.Owner, e.Owner)
	require.Equal(t, int64(2), e.Life, "above all lives before")
}
