package registrytest

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// suiteTest is one test of the suite.
type suiteTest struct {
	name string
	run  func(t *testing.T, w *World)
}

// Run is what every worker.Registry, and the zkreg.Directory beside it, keeps. open returns an
// empty World. Where that is in memory, each test is in a bubble of testing/synctest.
func Run(t *testing.T, inMemory bool, open func(t testing.TB) *World) {
	runAll(t, inMemory, open, []suiteTest{ // which make the cluster themselves
		{"an empty registry", testEmpty},
		{"exhaustion", testExhaustion},
		{"gaps once the counter is spent", testGaps},
		{"limit passed", testLimitPassed},
	})
	runAll(t, inMemory, func(t testing.TB) *World {
		w := open(t)
		w.Init(snowflake.DefaultLayout())
		return w
	}, []suiteTest{
		{"first claims at once", testFirstClaims},
		{"own again", testOwnAgain},
		{"own worker ID beyond doubt", testSeveralOwn},
		{"a worker ID that two have", testTwoEntries},
		{"an answer lost while claiming", testLostWhileClaiming},
		{"an answer lost while reporting", testLostWhileReporting},
		{"a claim that nobody finished", testUnfinishedClaim},
		{"release", testRelease},
		{"takeover has one winner", testTakeover},
		{"a Java Leaf's entry", testJavaEntry},
		{"a node name that two have", testSharedName},
		{"an unknown life that died goes", testUnknownLifeDied},
		{"own dead process", testOwnDead},
		{"copied directory, owner alive, ceiling ahead", copiedDirectory(false)},
		{"copied directory, owner alive, ceiling passed", copiedDirectory(true)},
		{"live set", testLive},
		{"rewritten: fenced", testRewritten},
		{"removed: put back, whatever answer is lost", testRemoved},
		{"another life of its instance is live: fenced", testAnotherLive},
		{"released by force: fenced", testReleasedByForce},
		{"removed while it was down", lostWhileDown((*World).Remove)},
		{"removed while it runs cut off", testRemovedWhileCutOff},
		{"entries lost while the cluster stands", testEntriesLost},
		{"data lost: put back", testDataLost},
		{"data lost: another cluster in its place", testDataLostTaken},
		{"data lost: a piece that is about to end", testDataLostLate},
		{"data lost while it was down", lostWhileDown(func(w *World, _ int64) { w.Wipe() })},
		{"data lost while it was down: worker ID taken", func(t *testing.T, w *World) { testDataLostWhileDownTaken(t, w, 2*worker.DefaultLease) }},
		{"data lost while it was down: worker ID taken for less", func(t *testing.T, w *World) { testDataLostWhileDownTaken(t, w, worker.DefaultLease/2) }},
		{"data lost: a Java Leaf in its place", testDataLostJava},
		{"a longer lease", testLongerLease},
		{"data lost: all come back at once", func(t *testing.T, w *World) { testDataLostAll(t, w, false) }},
		{"data lost: opened too early", func(t *testing.T, w *World) { testDataLostAll(t, w, true) }},
		{"peers", testPeers},
	})
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
	for range 2 {
		_, err := d.reg.Look(patient(t), d.self)
		require.ErrorIs(t, err, worker.ErrNoCluster, "only an operator makes one")
		require.ErrorContains(t, err, "leafd cluster init")
	}
	w.Init(snowflake.DefaultLayout())
	found := d.look()
	require.NotEmpty(t, found.Cluster)
	require.Equal(t, worker.Lookup{Cluster: found.Cluster, Entry: worker.Entry{WorkerID: worker.NoWorkerID}, Peers: []worker.Peer{}, Settle: found.Settle}, found)
	require.Empty(t, entries(t, w), "Look writes nothing")
	_, err := w.Directory().Release(patient(t), 0, true)
	require.ErrorIs(t, err, worker.ErrNoEntry)
	_, err = d.reg.Report(patient(t), d.self, true)
	require.ErrorIs(t, err, worker.ErrUnreachable, "nothing was claimed")
}

// A Java Leaf's entry is its own, whatever a daemon is called, and never written.
func testJavaEntry(t *testing.T, w *World) {
	now := w.Clock().Read().Wall()
	java := worker.Entry{WorkerID: 3, Node: "10.0.0.5:8080", Address: address, State: zkreg.StateJava, Timestamp: now - 10}
	w.Plant(java)
	d := fresh(t, w, "10.0.0.5:8080", Options{})
	require.False(t, d.look().Known)
	require.NoError(t, d.claimAsSeen())
	require.NotEqual(t, java.WorkerID, d.self.WorkerID)
	require.NoError(t, d.report(true))
	for _, force := range []bool{false, true} {
		_, err := w.Directory().Release(patient(t), java.WorkerID, force)
		require.ErrorIs(t, err, zkreg.ErrJava)
	}
	require.Equal(t, java, entryOf(t, w, java.WorkerID), "and so it is shown")

	// One that stands where a daemon's was.
	was := d.self.WorkerID
	w.Remove(was)
	java.WorkerID = was
	w.Plant(java)
	require.ErrorIs(t, d.report(true), worker.ErrFenced)
	again := d.again()
	require.ErrorIs(t, again.claim(), worker.ErrTaken)
	require.Equal(t, java, entryOf(t, w, was))
}

func testPeers(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{})
	require.Empty(t, peers(t, d), "before anything else")
	d.running()
	require.Empty(t, peers(t, d), "not itself")
	fresh(t, w, "b", Options{}).running()
	w.PlantLive(worker.Peer{Node: "c", Address: "10.0.0.7:1", Owner: "other"})
	requirePeers(t, d, "b", "c")
	all, err := d.reg.Peers(patient(t))
	require.NoError(t, err)
	require.Equal(t, worker.Peer{Node: "c", Address: "10.0.0.7:1", Owner: "other"}, all[1])
	var group sync.WaitGroup // Peers may be called at any time
	group.Go(func() {
		for range 20 {
			if _, err := d.reg.Peers(patient(t)); err != nil {
				t.Error(err)
			}
		}
	})
	for range 5 {
		require.NoError(t, d.report(true))
	}
	group.Wait()
}
