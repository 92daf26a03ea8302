package registrytest

import (
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// suiteTest is one test of the suite.
type suiteTest struct {
	name string
	run  func(t *testing.T, w *World)
}

// Run is what every worker.Registry and worker.Directory keeps. open returns an
// empty World.
func Run(t *testing.T, open func(t testing.TB) *World) {
	runAll(t, open, []suiteTest{ // which make the cluster themselves
		{"an empty registry", testEmpty},
		{"exhaustion", testExhaustion},
		{"exhaustion ends with a release", testExhaustionEnds},
		{"gaps once the counter is spent", testGaps},
		{"limit passed", testLimitPassed},
	})
	runAll(t, func(t testing.TB) *World {
		w := open(t)
		w.Init(snowflake.DefaultLayout())
		return w
	}, []suiteTest{
		{"first claims at once", testFirstClaims},
		{"own again", testOwnAgain},
		{"own again without a record", testLostRecord},
		{"own again under another name", testRenamed},
		{"own worker ID beyond doubt", testSeveralOwn},
		{"a worker ID that two have", testTwoEntries},
		{"an answer lost while claiming", testLostWhileClaiming},
		{"an answer lost while reporting", testLostWhileReporting},
		{"an answer lost while putting back", testLostWhilePuttingBack},
		{"a claim that nobody finished", testUnfinishedClaim},
		{"a node name for every taste", testNodeNames},
		{"release", testRelease},
		{"takeover has one winner", testTakeover},
		{"released by a command that drops the limit", testReleasedByAnOldCommand},
		{"the owner comes back to a released entry", testReleasedOwnerReturns},
		{"1024 entries", testFull},
		{"another layout", testForeign},
		{"a Java Leaf's entry", testJavaEntry},
		{"a node name that two have", testSharedName},
		{"an unknown life that died goes", testUnknownLifeDied},
		{"own dead process", testOwnDead},
		{"copied directory, owner alive, ceiling ahead", testCopiedDirectory},
		{"copied directory, owner alive, ceiling passed", testCopiedDirectoryLate},
		{"live set", testLive},
		{"session expired", testExpired},
		{"rewritten: fenced", testRewritten},
		{"removed: put back", testRemoved},
		{"another life of its instance is live: fenced", testAnotherLive},
		{"released by force: fenced", testReleasedByForce},
		{"removed while it was down", testRemovedWhileDown},
		{"made twice", testMadeTwice},
		{"entries lost while the cluster stands", testEntriesLost},
		{"data lost: put back", testDataLost},
		{"data lost: another cluster in its place", testDataLostTaken},
		{"data lost: a newcomer at the same time", testDataLostRace},
		{"data lost: a piece that is about to end", testDataLostLate},
		{"data lost while it was down", testDataLostWhileDown},
		{"data lost while it was down: worker ID taken", testDataLostWhileDownTaken},
		{"a longer lease", testLongerLease},
		{"data lost: all come back at once", testDataLostAll},
		{"peers", testPeers},
		{"closed twice", testClose},
	})
}

func runAll(t *testing.T, open func(t testing.TB) *World, tests []suiteTest) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // most of them wait for a session to end
			test.run(t, open(t))
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
	require.Equal(t, worker.Lookup{Cluster: found.Cluster, WorkerID: worker.NoWorkerID, Peers: []worker.Peer{}, Settle: found.Settle}, found)
	require.Empty(t, entries(t, w), "Look writes nothing")
	_, err := w.Directory().Release(patient(t), 0, true)
	require.ErrorIs(t, err, worker.ErrNoEntry)
	_, err = d.reg.Report(patient(t), d.self, true)
	require.ErrorIs(t, err, worker.ErrUnreachable, "nothing was claimed")
}

func testMadeTwice(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{}).running()
	w.Init(snowflake.DefaultLayout())
	require.NoError(t, d.report(true))
	again := d.again()
	require.Equal(t, d.self.Cluster, again.look().Cluster)
}

func testNodeNames(t *testing.T, w *World) {
	for i, node := range []string{
		"10.0.0.5:8080", "[2001:db8::1]:8080", "order-service-1", "host-0000000003", "a/b", "..", ".", "100%", "%2F", "наш узел", "a b\tc", "\xff\x00",
	} {
		d := fresh(t, w, node, Options{}).running()
		require.Equal(t, int64(i), d.self.WorkerID, "%q", node)
		require.NoError(t, d.report(true))
		e := entryOf(t, w, int64(i))
		require.Equal(t, node, e.Node)
		require.True(t, e.Live, "%q", node)
		require.NoError(t, d.reg.Close())
		d = d.again().running()
		require.Equal(t, int64(i), d.self.WorkerID, "%q", node)
	}
}

func testForeign(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{}).running()
	layout, err := snowflake.ParseLayout("41+5+5+12", snowflake.DefaultEpoch)
	require.NoError(t, err)
	epoch := snowflake.DefaultLayout()
	epoch.Epoch++
	for name, layout := range map[string]snowflake.Layout{"layout": layout, "epoch": epoch} {
		other := fresh(t, w, "b", Options{Layout: layout})
		_, err := other.reg.Look(patient(t), other.self)
		require.ErrorIs(t, err, worker.ErrForeign, name)
		require.ErrorContains(t, err, layout.String())
		require.ErrorContains(t, err, strconv.FormatInt(int64(layout.Epoch), 10))
		require.ErrorContains(t, err, d.self.Layout)
	}
	require.Len(t, entries(t, w), 1)
}

// A Java Leaf records no owner, and Directory shows it as it is.
func testJavaEntry(t *testing.T, w *World) {
	now := w.Clock().Read().Wall()
	w.Plant(worker.Entry{WorkerID: 3, Node: "10.0.0.5:8080", Address: address, State: worker.StateActive, Timestamp: now - 10, Ceiling: now + 5990})
	d := fresh(t, w, "10.0.0.5:8080", Options{})
	found := d.look()
	require.True(t, found.Known)
	require.Equal(t, now+5990, found.Ceiling)
	require.Empty(t, found.Owner)
	require.NoError(t, d.claimAsSeen())
	require.Equal(t, int64(3), d.self.WorkerID)
	require.Equal(t, now+5990, d.self.Ceiling)
	require.Greater(t, d.self.Floor, now+6990, "it was watched")
	require.Len(t, entries(t, w), 1)

	// One that runs keeps it.
	now = w.Clock().Read().Wall()
	w.Plant(worker.Entry{WorkerID: 5, Node: "10.0.0.6:8080", Address: address, State: worker.StateActive, Timestamp: now})
	late := fresh(t, w, "10.0.0.6:8080", Options{})
	late.look()
	w.Clock().OnSleep(func() { w.Rewrite(5, "") })
	err := late.claimAsSeen()
	w.Clock().OnSleep(nil)
	require.ErrorIs(t, err, worker.ErrHeld)
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

func testClose(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{}).running()
	watcher := fresh(t, w, "b", Options{})
	requirePeers(t, watcher, "a")
	require.NoError(t, errors.Join(d.reg.Close(), d.reg.Close()))
	requirePeers(t, watcher)
	require.NoError(t, fresh(t, w, "c", Options{}).reg.Close(), "before anything else")
}
