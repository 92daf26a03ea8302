package registrytest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

func testLive(t *testing.T, w World) {
	d := fresh(t, w, "a", Options{}).running()
	watcher := fresh(t, w, "b", Options{})
	requirePeers(t, watcher, "a")
	for range 2 {
		require.NoError(t, d.report(false))
		requirePeers(t, watcher)
	}
	require.Equal(t, d.self.Ceiling, entryOf(t, w, 0).Ceiling, "it reports all the same")
	for range 2 {
		require.NoError(t, d.report(true))
		requirePeers(t, watcher, "a")
	}
}

func testExpired(t *testing.T, w World) {
	d := fresh(t, w, "a", Options{SessionTimeout: time.Second}).running()
	watcher := fresh(t, w, "b", Options{})
	w.Expire(t, d.reg, "a")
	requirePeers(t, watcher)
	require.NoError(t, d.report(true))
	requirePeers(t, watcher, "a")
}

func testRewritten(t *testing.T, w World) {
	d := fresh(t, w, "a", Options{}).running()
	require.NoError(t, d.report(true))
	w.Rewrite(t, 0, "intruder")
	for range 2 {
		err := d.report(true)
		require.ErrorIs(t, err, worker.ErrFenced)
		require.ErrorContains(t, err, "intruder")
	}
	require.Equal(t, "intruder", entryOf(t, w, 0).Owner, "a fenced daemon writes nothing")
}

func testRemoved(t *testing.T, w World) {
	d := fresh(t, w, "a", Options{}).running()
	w.Remove(t, 0)
	for range 2 {
		require.ErrorIs(t, d.report(true), worker.ErrFenced)
	}
	require.Empty(t, entries(t, w))
}

// Two of us: a copy of our directory that started while we ran without the registry, say.
func testAnotherLive(t *testing.T, w World) {
	d := fresh(t, w, "a", Options{}).running()
	w.PlantLive(t, worker.Peer{Node: "a", Address: "10.0.0.9:1", Owner: "other", Instance: d.self.Instance})
	require.NoError(t, d.report(false), "not live itself, it has nothing against it")
	err := d.report(true)
	require.ErrorIs(t, err, worker.ErrFenced)
	require.ErrorContains(t, err, "other")
	require.ErrorContains(t, err, "10.0.0.9:1")
}

func testReleasedByForce(t *testing.T, w World) {
	d := fresh(t, w, "a", Options{}).running()
	_, err := w.Directory(t).Release(patient(t), 0, true)
	require.NoError(t, err)
	other := fresh(t, w, "b", Options{}).running()
	require.Equal(t, int64(1), other.self.WorkerID, "its limit lies ahead")
	require.ErrorIs(t, d.report(true), worker.ErrFenced, "before anybody took it")
	require.NoError(t, other.report(true))
	require.Equal(t, worker.StateReleased, entryOf(t, w, 0).State)
}

func testRemovedWhileDown(t *testing.T, w World) {
	d := fresh(t, w, "a", Options{}).running()
	fresh(t, w, "b", Options{}).running()
	require.NoError(t, d.reg.Close())
	w.Remove(t, 0)
	again := d.again()
	found := again.look()
	require.True(t, found.Removed)
	require.False(t, found.Known || found.DataLost)
	require.NoError(t, again.claimAsSeen())
	require.Equal(t, int64(2), again.self.WorkerID, "a removed worker ID is nobody's")

	again.look()
	w.Remove(t, 2)
	again.self.Owner = "" // another process
	require.ErrorIs(t, again.claimAsSeen(), worker.ErrHeld, "removed between Look and Claim")
}

func testDataLost(t *testing.T, w World) {
	fresh(t, w, "other", Options{}).running()
	d := fresh(t, w, "a", Options{}).running()
	cluster := d.self.Cluster
	w.Wipe(t)
	require.NoError(t, d.report(true))
	require.Equal(t, int64(1), d.self.WorkerID)
	require.Equal(t, cluster, d.self.Cluster)
	require.Equal(t, int64(1), d.self.Losses)
	e := entryOf(t, w, 1)
	require.Equal(t, worker.StateActive, e.State)
	require.Equal(t, d.self.Owner, e.Owner)
	require.Equal(t, d.self.Ceiling, e.Ceiling)
	requirePeers(t, fresh(t, w, "watcher", Options{}), "a")
	require.NoError(t, d.report(true))
	w.Remove(t, 1)
	require.ErrorIs(t, d.report(true), worker.ErrFenced, "removed from what was put back")
}

// The entries alone are lost: who has a worker ID puts it back, whether it runs or
// starts, and who has none waits for them.
func testEntriesLost(t *testing.T, w World) {
	first, second := fresh(t, w, "a", Options{}).running(), fresh(t, w, "b", Options{}).running()
	down := fresh(t, w, "c", Options{}).running()
	require.NoError(t, down.reg.Close())
	w.LoseEntries(t)
	newcomer := fresh(t, w, "d", Options{Settle: 2 * time.Second})
	for range 2 {
		_, err := newcomer.reg.Look(patient(t), newcomer.self)
		require.ErrorIs(t, err, worker.ErrNoCluster)
	}
	require.Empty(t, entries(t, w))
	require.NoError(t, first.report(true))
	newcomer.look()
	reported := make(chan error, 1)
	w.Clock().OnSleep(func() {
		select {
		case reported <- second.report(true):
		default:
		}
	})
	err := newcomer.claimAsSeen()
	w.Clock().OnSleep(nil)
	require.NoError(t, err)
	require.NotEmpty(t, reported, "the newcomer never waited")
	require.NoError(t, <-reported)
	require.Greater(t, newcomer.self.WorkerID, int64(1), "the survivors' are theirs")
	again := down.again()
	require.True(t, again.look().DataLost)
	if newcomer.self.WorkerID == down.self.WorkerID { // it came back only after the newcomer had settled
		require.ErrorIs(t, again.claimAsSeen(), worker.ErrHeld)
	} else {
		require.NoError(t, again.claimAsSeen())
		require.Equal(t, down.self.WorkerID, again.self.WorkerID)
	}
	for _, d := range []*daemon{first, second, newcomer} {
		require.NoError(t, d.report(true))
		require.Equal(t, int64(1), d.self.Losses)
		require.Equal(t, first.self.Cluster, d.self.Cluster)
	}
	require.Equal(t, []int64{0, 1}, []int64{first.self.WorkerID, second.self.WorkerID})
}

func testDataLostTaken(t *testing.T, w World) {
	d := fresh(t, w, "a", Options{}).running()
	w.Wipe(t)
	w.Init(t, snowflake.DefaultLayout()) // which an operator must not
	other := fresh(t, w, "b", Options{}).running()
	require.Equal(t, int64(0), other.self.WorkerID)
	err := d.report(true)
	require.ErrorIs(t, err, worker.ErrFenced)
	require.ErrorContains(t, err, "b")
	require.NoError(t, other.report(true))
	require.Len(t, entries(t, w), 1)
}

// A new node starts when one survivor has put the cluster back, and another hasn't reported
// yet; it and the new node have worker 1 in mind: it is the survivor's.
func testDataLostRace(t *testing.T, w World) {
	first := fresh(t, w, "first", Options{}).running()
	d := fresh(t, w, "a", Options{}).running()
	w.Wipe(t)
	require.NoError(t, first.report(true))
	other := fresh(t, w, "b", Options{Settle: 2 * time.Second})
	other.look()
	reported := make(chan error, 1)
	w.Clock().OnSleep(func() {
		select {
		case reported <- d.report(true):
		default:
		}
	})
	err := other.claimAsSeen()
	w.Clock().OnSleep(nil)
	require.NoError(t, err)
	require.NotEmpty(t, reported, "it never waited")
	require.NoError(t, <-reported)
	require.Equal(t, int64(1), d.self.WorkerID)
	require.NotEqual(t, int64(1), other.self.WorkerID)
	require.Equal(t, d.self.Cluster, other.self.Cluster)
	require.NoError(t, d.report(true))
	require.NoError(t, other.report(true))
	require.Len(t, entries(t, w), 3)
}

func testDataLostWhileDown(t *testing.T, w World) {
	fresh(t, w, "other", Options{}).running()
	d := fresh(t, w, "a", Options{}).running()
	require.NoError(t, d.reg.Close())
	w.Wipe(t)
	again := d.again()
	found := again.look()
	require.True(t, found.DataLost)
	require.False(t, found.Known || found.Removed)
	require.NoError(t, again.claimAsSeen())
	require.Equal(t, int64(1), again.self.WorkerID)
	require.Equal(t, d.self.Cluster, again.self.Cluster)
	require.NoError(t, again.report(true))

	// The other's record is of before the loss, and there is a root again.
	another := process(t, w, worker.Record{Node: "other", Cluster: d.self.Cluster, WorkerID: 0}, Options{})
	require.True(t, another.look().DataLost)
	require.NoError(t, another.claimAsSeen())
	require.Equal(t, int64(0), another.self.WorkerID)
	require.Equal(t, again.self.Cluster, another.self.Cluster)
}

func testDataLostWhileDownTaken(t *testing.T, w World) {
	d := fresh(t, w, "a", Options{}).running()
	require.NoError(t, d.reg.Close())
	w.Wipe(t)
	w.Init(t, snowflake.DefaultLayout())
	fresh(t, w, "b", Options{}).running()
	again := d.again()
	require.True(t, again.look().DataLost)
	err := again.claimAsSeen()
	require.ErrorIs(t, err, worker.ErrHeld)
	require.ErrorContains(t, err, "b")
	require.Len(t, entries(t, w), 1)
	require.NotContains(t, peers(t, fresh(t, w, "watcher", Options{})), "a")
}

// Survivors report and newcomers claim, all at the same moment.
func testDataLostAll(t *testing.T, w World) {
	const n = 8
	var all []*daemon
	before := map[*daemon]int64{}
	for i := range n {
		all = append(all, fresh(t, w, fmt.Sprintf("survivor%d", i), Options{}).running())
		before[all[i]] = all[i].self.WorkerID
	}
	w.Wipe(t)
	for i := range n {
		all = append(all, fresh(t, w, fmt.Sprintf("newcomer%d", i), Options{Settle: 2 * time.Second}))
	}
	var survivors sync.WaitGroup
	survivors.Add(n)
	w.Clock().OnSleep(survivors.Wait) // they report before the root has settled
	defer w.Clock().OnSleep(nil)
	errs := together(all, func(d *daemon) error {
		if _, survivor := before[d]; survivor {
			defer survivors.Done()
			return d.report(true)
		}
		_, err := d.reg.Look(patient(d.t), d.self)
		for errors.Is(err, worker.ErrNoCluster) {
			_, err = d.reg.Look(patient(d.t), d.self)
		}
		if err != nil {
			return err
		}
		return d.claimAsSeen()
	})
	ids := map[int64]bool{}
	for i, d := range all {
		require.NoError(t, errs[i], d.self.Node)
		if id, survivor := before[d]; survivor {
			require.Equal(t, id, d.self.WorkerID)
		}
		require.False(t, ids[d.self.WorkerID], "worker %d twice", d.self.WorkerID)
		ids[d.self.WorkerID] = true
		require.Equal(t, all[0].self.Cluster, d.self.Cluster)
	}
	for _, d := range all {
		require.NoError(t, d.report(true))
	}
}
