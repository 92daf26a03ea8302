package registrytest

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
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
		{"an answer lost while starting", testLostWhileStarting},
		{"an answer lost while starting on a released worker ID", testLostWhileTaking},
		{"an answer lost while resuming", testLostWhileResuming},
		{"an answer lost while reporting", testLostWhileReporting},
		{"an answer lost while putting back", testLostWhilePuttingBack},
		{"release", testRelease},
		{"a copied directory, its owner alive", testCopied},
		{"live set", testLive},
		{"released by force: fenced", testReleasedByForce},
		{"removed while it was down", lostWhileDown(func(w *World) { w.Remove(1) })},
		{"data lost while it was down", lostWhileDown((*World).Wipe)},
		{"removed while it runs cut off", testRemovedWhileCutOff},
		{"entries lost while the cluster stands", testEntriesLost},
		{"data lost: taken meanwhile", testDataLostTaken},
		{"data lost: all come back at once", testDataLostAll},
	})
	if inMemory {
		runAll(t, inMemory, standing, []suiteTest{
			{"what settles, and for how long", testSettling},
			{"an answer lost while starting in an old root", func(t *testing.T, w *World) {
				time.Sleep(2 * time.Minute) // what is claimed settles
				testLostWhileStarting(t, w)
			}},
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

// lossy runs try once for each request of a process, with the answer to that request lost, done
// or not done, until a process has made less requests than that.
func lossy(t *testing.T, try func(t *testing.T, n int, done bool, lose func(d *daemon)) (requests int)) {
	t.Helper()
	for _, done := range []bool{true, false} {
		for n, more := 1, true; more; n++ {
			before := 0
			requests := try(t, n, done, func(d *daemon) {
				before = d.w.Requests(d.reg)
				d.w.LoseAnswer(d.reg, n, done)
			})
			more = requests-before > n && n < 40
		}
	}
}

func testLostWhileStarting(t *testing.T, w *World) {
	var all []*daemon
	lossy(t, func(t *testing.T, n int, done bool, lose func(d *daemon)) int {
		d := fresh(t, w, fmt.Sprintf("node-%d-%t", n, done), Options{}).process()
		lose(d)
		require.NoError(t, d.begin(patient(t)), "lost answer %d, done %t", n, done)
		made := d.made()
		require.NoError(t, d.report())
		d.stop()
		all = append(all, d)
		return made
	})
	requireOneEach(t, w, all)
}

// one-path: the released one is taken over by a conditional write of its only path.
func testLostWhileTaking(t *testing.T, w *World) {
	id := int64(40)
	lossy(t, func(t *testing.T, n int, done bool, lose func(d *daemon)) int {
		id++
		w.Plant(worker.Entry{WorkerID: id, Node: "gone", IP: "gone", Port: "1", State: worker.StateReleased, Owner: "old", Life: 3, Instance: "gone", Timestamp: 1, Ceiling: 2, Floor: 1, Limit: 3})
		w.Hint(id)
		d := fresh(t, w, fmt.Sprintf("node-%d-%t", n, done), Options{}).process()
		lose(d)
		require.NoError(t, d.begin(patient(t)), "lost answer %d, done %t", n, done)
		made := d.made()
		require.NoError(t, d.report())
		e := entryOf(t, w, id)
		if d.ID() == id {
			require.Contains(t, []clock.Millis{3, 4}, d.Record().Floor, "4: it was claimed again, over a promotion without an answer")
		} else { // a claim of its own is left, as its answer was lost: nothing was issued under it
			require.Equal(t, []any{worker.StateClaiming, d.Record().Instance, e.Floor}, []any{e.State, e.Instance, e.Limit}, "lost answer %d, done %t", n, done)
		}
		d.stop()
		return made
	})
}

func testLostWhileResuming(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{}).running()
	instance := d.Record().Instance
	lossy(t, func(t *testing.T, n int, done bool, lose func(d *daemon)) int {
		if n%2 == 0 {
			d.crash()
		} else {
			d.stop()
		}
		d.process()
		lose(d)
		require.NoError(t, d.begin(patient(t)), "lost answer %d, done %t", n, done)
		made := d.made()
		require.NoError(t, d.report())
		require.Zero(t, d.ID())
		require.Equal(t, instance, d.Record().Instance, "its own lives are no copies: lost answer %d, done %t", n, done)
		return made
	})
	require.Len(t, entries(t, w), 1)
}

func testLostWhileReporting(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{}).running()
	for _, done := range []bool{true, false} {
		for n := 1; n < 12; n++ {
			d.lose(n, done)
			require.NoError(t, d.report(), "lost answer %d, done %t", n, done)
		}
	}
	require.Equal(t, int64(1), entryOf(t, w, 0).Life, "the same life all the time")

	// What another wrote after a lost answer is still another's.
	w.LoseAnswer(d.reg, 1, true)
	w.Rewrite(0, "intruder")
	requireFenced(t, d, "intruder")
}

// However far it has come with noting the loss and putting its worker ID back; and it is told of
// the loss once. A daemon that issues goes on meanwhile (settles-first).
func testLostWhilePuttingBack(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{}).running()
	losses := int64(0)
	for _, done := range []bool{true, false} {
		for n := 1; n < 12; n++ {
			told := d.told(worker.EventDataLost)
			w.Remove(0)
			d.lose(n, done)
			require.Eventually(t, func() bool { return d.Record().Losses > losses }, patience, time.Millisecond, "lost answer %d, done %t", n, done)
			require.NoError(t, d.report(), "lost answer %d, done %t", n, done)
			require.NoError(t, d.Check())
			losses = d.Record().Losses
			require.Equal(t, d.cfg.Owner, entryOf(t, w, 0).Owner)
			require.Equal(t, told+1, d.told(worker.EventDataLost), "lost answer %d, done %t", n, done)
		}
	}
	require.NotZero(t, d.Since(), "it has never stopped")
}
