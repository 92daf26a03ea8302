package registrytest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

func testLive(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{SessionTimeout: 3 * time.Second}).running()
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
	w.Expire("a")
	requirePeers(t, watcher)
	require.NoError(t, d.report(true))
	requirePeers(t, watcher, "a")
	require.NoError(t, errors.Join(d.reg.Close(), d.reg.Close(), watcher.reg.Close()), "twice, and before anything else")
	requirePeers(t, fresh(t, w, "c", Options{}))
}

func testRewritten(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{}).running()
	require.NoError(t, d.report(true))
	w.Rewrite(0, "intruder")
	requireFenced(t, d, "intruder")
	requireFenced(t, d, "intruder")
	require.Equal(t, "intruder", entryOf(t, w, 0).Owner, "a fenced daemon writes nothing")
}

// requireFenced requires that d's report is refused, for what text names.
func requireFenced(t *testing.T, d *daemon, text string) {
	t.Helper()
	err := d.report(true)
	require.ErrorIs(t, err, worker.ErrFenced)
	require.ErrorContains(t, err, text)
}

// closed requires that d gets no worker ID until the cluster is opened, and leaves nothing.
// It returns what d is told.
func closed(t *testing.T, w *World, d *daemon) string {
	t.Helper()
	before := entries(t, w)
	d.look()
	ctx, cancel := context.WithCancel(patient(t))
	w.Clock().OnSleep(cancel)
	_, err := d.reg.Claim(ctx, d.self, d.lease())
	w.Clock().OnSleep(nil)
	require.ErrorIs(t, err, worker.ErrNoCluster)
	require.ErrorContains(t, err, "leafd cluster open")
	require.Equal(t, before, entries(t, w))
	return err.Error()
}

// Two of us: a copy of our directory that started while we ran without the registry, say.
func testAnotherLive(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{}).running()
	w.PlantLive(worker.Peer{Node: "a", Address: "10.0.0.9:1", Owner: "other", Instance: d.self.Instance})
	require.NoError(t, d.report(false), "not live itself, it has nothing against it")
	requireFenced(t, d, "other")
	requireFenced(t, d, "10.0.0.9:1")
}

func testReleasedByForce(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{}).running()
	_, err := w.Directory().Release(patient(t), 0, true)
	require.NoError(t, err)
	other := fresh(t, w, "b", Options{}).running()
	require.Equal(t, int64(1), other.self.WorkerID, "its limit lies ahead")
	require.ErrorIs(t, d.report(true), worker.ErrFenced, "before anybody took it")
	require.NoError(t, other.report(true))
	require.Equal(t, worker.StateReleased, entryOf(t, w, 0).State)
}

// What a daemon loses while it is down, and then between its Look and its Claim.
func lostWhileDown(lose func(w *World, workerID int64)) func(t *testing.T, w *World) {
	return func(t *testing.T, w *World) {
		fresh(t, w, "other", Options{}).running()
		d := fresh(t, w, "a", Options{}).running()
		require.NoError(t, d.reg.Close())
		lose(w, 1)
		for losses := int64(1); losses <= 2; losses++ {
			again := d.again()
			found := again.look()
			require.Equal(t, losses == 1, found.Lost)
			require.Equal(t, losses == 2, found.Known)
			if found.Known {
				w.Remove(1)
			}
			require.NoError(t, again.claimAsSeen())
			require.Equal(t, int64(1), again.self.WorkerID)
			require.Equal(t, d.self.Cluster, again.self.Cluster)
			require.Equal(t, losses, again.self.Losses)
			require.NoError(t, again.report(true))
			require.NoError(t, again.reg.Close())
			d = again
		}
	}
}

// The entry of a daemon that is cut off and issues on is deleted by hand: a newcomer gets another
// worker ID, and so does the next one, after the entry was put back.
func testRemovedWhileCutOff(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{}).running()
	w.Remove(d.self.WorkerID)
	newcomer := fresh(t, w, "b", Options{}).running()
	require.Equal(t, int64(1), newcomer.self.WorkerID)
	require.NoError(t, newcomer.report(true))
	require.NoError(t, d.report(true))
	require.Equal(t, d.self.Owner, entryOf(t, w, 0).Owner)
	require.Equal(t, int64(1), d.self.Losses)
	require.NoError(t, newcomer.report(true))
	w.OpenCluster(Threshold)
	// ZooKeeper counted the entry that was put back, too: 2 or 3.
	require.Greater(t, fresh(t, w, "c", Options{}).running().self.WorkerID, newcomer.self.WorkerID)
}

func testDataLost(t *testing.T, w *World) {
	other := fresh(t, w, "other", Options{}).running()
	require.NoError(t, other.reg.Close())
	d := fresh(t, w, "a", Options{}).running()
	cluster := d.self.Cluster
	w.Wipe()
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
	closed(t, w, fresh(t, w, "newcomer", Options{}))

	// The other's record is of before the loss, and there is a root again.
	other = other.again()
	require.True(t, other.look().Lost)
	require.NoError(t, other.claimAsSeen())
	require.Equal(t, int64(0), other.self.WorkerID)
	require.Equal(t, cluster, other.self.Cluster)
}

// The entries alone are lost: who has a worker ID puts it back, whether it runs or starts,
// and who has none gets one when an operator says that all are back.
func testEntriesLost(t *testing.T, w *World) {
	first, second := fresh(t, w, "a", Options{}).running(), fresh(t, w, "b", Options{}).running()
	down := fresh(t, w, "c", Options{}).running()
	require.NoError(t, down.reg.Close())
	w.LoseEntries()
	newcomer := fresh(t, w, "d", Options{})
	closed(t, w, newcomer)
	require.NoError(t, first.report(true))
	require.NoError(t, second.report(true))
	again := down.again()
	require.True(t, again.look().Lost)
	require.NoError(t, again.claimAsSeen())
	closed(t, w, newcomer)
	w.OpenCluster(Threshold)
	newcomer.running()
	for i, d := range []*daemon{first, second, again, newcomer} {
		require.NoError(t, d.report(true))
		require.Equal(t, int64(i), d.self.WorkerID)
		require.Equal(t, int64(1), d.self.Losses, "one loss, whoever finds it")
		require.Equal(t, first.self.Cluster, d.self.Cluster)
	}
	require.Positive(t, newcomer.self.Floor)
}

// The operator's command raises the lease that a loss is reckoned with, before it is used.
func testLongerLease(t *testing.T, w *World) {
	long := Options{Lease: 3 * worker.DefaultLease}
	short := fresh(t, w, "a", Options{}).running()
	require.Equal(t, worker.DefaultLease, short.self.LongestLease)
	d := fresh(t, w, "b", long).running()
	require.Equal(t, long.Lease, d.self.LongestLease)
	require.NoError(t, short.report(true))
	require.Equal(t, long.Lease, short.self.LongestLease)
	w.Wipe()
	require.NoError(t, short.report(true))
	require.Contains(t, closed(t, w, fresh(t, w, "c", Options{})), w.Clock().Read().Wall().Add(long.Lease).String()[:10])
}

func testDataLostTaken(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{}).running()
	w.Wipe()
	w.Init(snowflake.DefaultLayout()) // which an operator must not
	other := fresh(t, w, "b", Options{}).running()
	require.Equal(t, int64(0), other.self.WorkerID)
	requireFenced(t, d, worker.ErrForeign.Error())
	require.NoError(t, other.report(true))
	require.Len(t, entries(t, w), 1)
}

// A piece that ends before every clock agrees that it stands is not put back: it ends.
func testDataLostLate(t *testing.T, w *World) {
	first := fresh(t, w, "first", Options{}).running()
	opts := Options{Lease: w.Lease}
	runs, down := fresh(t, w, "runs", opts).running(), fresh(t, w, "down", opts).running()
	require.NoError(t, down.reg.Close())
	w.Wipe()
	require.NoError(t, first.report(true))
	time.Sleep(w.Lease)
	require.ErrorIs(t, runs.report(true), worker.ErrLeaseOver)
	closed(t, w, down.again())
	w.OpenCluster(Threshold)
	limit := down.self.Limit
	down = down.again().running()
	require.Greater(t, down.self.Floor, limit, "whatever it gets begins at the root's floor")
	require.ErrorIs(t, runs.report(true), worker.ErrLeaseOver)
	require.NoError(t, first.report(true))
}

// After a loss, too, a Java Leaf's entry is never written over: it issues under that worker ID.
func testDataLostJava(t *testing.T, w *World) {
	first := fresh(t, w, "a", Options{}).running()
	d := fresh(t, w, "b", Options{}).running()
	w.Wipe()
	require.NoError(t, first.report(true))
	java := worker.Entry{WorkerID: d.self.WorkerID, Node: "10.0.0.9:8080", Address: "10.0.0.9:8080", State: zkreg.StateJava, Timestamp: d.self.Timestamp}
	w.Plant(java)
	require.ErrorIs(t, d.report(true), worker.ErrFenced)
	require.ErrorIs(t, d.again().claim(), worker.ErrTaken)
	require.Equal(t, java, entryOf(t, w, java.WorkerID))
}

// It comes back only when a newcomer has its worker ID, on an operator's wrong word, or as a
// record that was put back: the later piece stands, whichever limit is the greater.
func testDataLostWhileDownTaken(t *testing.T, w *World, lease time.Duration) {
	first := fresh(t, w, "first", Options{}).running()
	d := fresh(t, w, "a", Options{}).running()
	require.NoError(t, d.reg.Close())
	w.Wipe()
	require.NoError(t, first.report(true))
	w.OpenCluster(Threshold)
	time.Sleep(10 * time.Millisecond)
	newcomer := fresh(t, w, "b", Options{Lease: lease}).running()
	require.Equal(t, int64(1), newcomer.self.WorkerID)
	again := d.again()
	again.look()
	err := again.claimAsSeen()
	require.ErrorIs(t, err, worker.ErrTaken)
	require.ErrorContains(t, err, "b")
	require.NoError(t, newcomer.report(true))
	require.Len(t, entries(t, w), 2)
	require.NotContains(t, peers(t, fresh(t, w, "watcher", Options{})), "a")
}

// Survivors report and newcomers claim, all at the same moment: who has a worker ID keeps it,
// unless an operator opens the cluster early. Whoever has one then is alone.
func testDataLostAll(t *testing.T, w *World, early bool) {
	const n = 8
	var all []*daemon
	for i := range n {
		all = append(all, fresh(t, w, fmt.Sprintf("survivor%d", i), Options{}).running())
	}
	w.Wipe()
	for i := range n {
		all = append(all, fresh(t, w, fmt.Sprintf("newcomer%d", i), Options{}))
	}
	var survivors, operator sync.WaitGroup
	survivors.Add(n)
	done, over := context.WithCancel(t.Context())
	operator.Go(func() {
		if !early {
			survivors.Wait()
		}
		for w.OpenCluster(Threshold); early && done.Err() == nil; {
			w.OpenCluster(Threshold)
			time.Sleep(time.Millisecond)
		}
	})
	if !early {
		w.Clock().OnSleep(survivors.Wait)
		defer w.Clock().OnSleep(nil)
	}
	errs := together(all, func(d *daemon) error {
		if d.self.WorkerID != worker.NoWorkerID {
			defer survivors.Done()
			return d.report(true)
		}
		_, err := d.reg.Look(patient(d.t), d.self)
		for errors.Is(err, worker.ErrNoCluster) {
			time.Sleep(time.Millisecond)
			_, err = d.reg.Look(patient(d.t), d.self)
		}
		if err != nil {
			return err
		}
		return d.claimAsSeen()
	})
	over()
	operator.Wait()
	ids := map[int64]bool{}
	for i, d := range all {
		if early && i < n && errs[i] != nil {
			require.ErrorIs(t, errs[i], worker.ErrFenced)
			continue
		}
		require.NoError(t, errs[i], d.self.Node)
		require.True(t, i >= n || d.self.WorkerID == int64(i), "a survivor has its own")
		require.False(t, ids[d.self.WorkerID], "worker %d twice", d.self.WorkerID)
		ids[d.self.WorkerID] = true
		require.Equal(t, all[0].self.Cluster, d.self.Cluster)
		require.NoError(t, d.report(true))
	}
	require.Len(t, entries(t, w), len(ids))
}
