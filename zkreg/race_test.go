package zkreg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zookeepertest"
)

// before has f called once, right before the n-th transaction of r.
func before(r *Registry, n int, f func()) {
	writes := 0
	r.commit = func(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
		if writes++; writes == n {
			f()
		}
		return r.session.Multi(ctx, connection, ops...)
	}
}

// lostWorld has a survivor with worker 0 whose entry ZooKeeper lost, and a newcomer
// that was given 0 too, or will be, since an operator has opened the cluster too early.
func lostWorld(t *testing.T) (survivor *Registry, kept worker.Record, newcomer *Registry, self worker.Record) {
	t.Helper()
	server := zookeepertest.Shared(t)
	root := madeRoot(t, server)
	survivor, kept = claimed(t, daemonConfig(server, root, "survivor"))
	require.NoError(t, removeAll(server.Conn(t), survivor.forever))
	openCluster(t, daemonConfig(server, root, ""))
	newcomer = openRegistry(t, daemonConfig(server, root, "newcomer"))
	self = fresh(newcomer)
	_, err := newcomer.Look(bounded(t, patience), self)
	require.NoError(t, err)
	return survivor, kept, newcomer, self
}

// zkreg.R1: the survivor comes between the newcomer's last look and its promotion.
func TestPutBackBeforePromotion(t *testing.T) {
	t.Parallel()
	survivor, kept, newcomer, self := lostWorld(t)
	before(newcomer, 2, func() { kept = report(t, survivor, kept) })
	rec, err := newcomer.Claim(bounded(t, patience), self, worker.DefaultLease)
	require.NoError(t, err)
	require.Equal(t, int64(0), kept.WorkerID)
	require.NotEqual(t, int64(0), rec.WorkerID)
	report(t, survivor, kept)
	report(t, newcomer, rec)
}

// zkreg.R1: the newcomer is promoted between the survivor's last look and its entry.
func TestPromotionBeforePutBack(t *testing.T) {
	t.Parallel()
	survivor, kept, newcomer, self := lostWorld(t)
	var rec worker.Record
	before(survivor, 2, func() { // the first one finds that the entry is gone
		var err error
		rec, err = newcomer.Claim(bounded(t, patience), self, worker.DefaultLease)
		require.NoError(t, err)
	})
	_, err := survivor.Report(bounded(t, patience), next(kept), true)
	require.ErrorIs(t, err, worker.ErrFenced)
	require.Equal(t, int64(0), rec.WorkerID)
	report(t, newcomer, rec)
}

// zkreg.R1: of two who put one worker ID back, which had it one after the other, the greater
// limit stands, whoever comes first.
func TestPutBackBeforePutBack(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]clock.Millis{"the first is the greater": -1, "the second is the greater": 1} {
		t.Run(name, func(t *testing.T) {
			survivor, kept, second, self := lostWorld(t)
			self.WorkerID, self.Cluster, self.Confirmed, self.Limit = 0, kept.Cluster, true, kept.Limit+later
			_, err := second.Look(bounded(t, patience), self)
			require.NoError(t, err)
			before(second, 1, func() { kept = report(t, survivor, kept) })
			rec, err := second.Claim(bounded(t, patience), self, time.Minute)
			if later < 0 {
				require.ErrorIs(t, err, worker.ErrTaken)
				report(t, survivor, kept)
				return
			}
			require.NoError(t, err)
			_, err = survivor.Report(bounded(t, patience), next(kept), true)
			require.ErrorIs(t, err, worker.ErrFenced)
			report(t, second, rec)
		})
	}
}

// zkreg.R2: while a report waits to be sent, the connection is another one, of a ZooKeeper that
// was set back and counts the versions once more: at ours the entry is somebody else's.
func TestSetBackBeforeAReportIsSent(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	proxy := zookeepertest.NewProxy(t, server.Addr())
	cfg := daemonConfig(server, madeRoot(t, server), "a")
	cfg.Servers = []string{proxy.Addr()}
	r, rec := claimed(t, cfg)
	rec = report(t, r, rec)
	theirs := setBack(t, r, proxy, server.Conn(t), r.held.path, rec)
	_, err := r.Report(bounded(t, patience), next(rec), true)
	require.ErrorIs(t, err, worker.ErrFenced)
	left, _, err := server.Conn(t).Get(r.held.path)
	require.NoError(t, err)
	require.Equal(t, theirs, string(left))
}

// setBack does that right before the first transaction of r, and returns what the entry of rec
// at p has then.
func setBack(t *testing.T, r *Registry, proxy *zookeepertest.Proxy, conn *zk.Conn, p string, rec worker.Record) string {
	t.Helper()
	theirs := r.payload(rec, worker.StateActive)
	theirs.Instance, theirs.Owner = uuid.NewString(), uuid.NewString()
	before(r, 1, func() {
		was := r.session.Connection()
		proxy.Cut(t)
		require.Eventually(t, func() bool { now := r.session.Connection(); return now != 0 && now != was }, patience, time.Millisecond)
		_, stat, err := conn.Get(p)
		require.NoError(t, err)
		require.NoError(t, conn.Delete(p, -1))
		_, err = conn.Create(p, encode(theirs), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		for range stat.Version {
			_, err := conn.Set(p, encode(theirs), -1)
			require.NoError(t, err)
		}
	})
	return string(encode(theirs))
}

// zkreg.R2: so it is for a life that resumes, while the instance whose entry it is runs.
func TestSetBackBeforeALifeResumes(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	proxy := zookeepertest.NewProxy(t, server.Addr())
	cfg := daemonConfig(server, madeRoot(t, server), "a")
	r, rec := claimed(t, cfg)
	rec = report(t, r, rec)
	_, err := r.Report(bounded(t, patience), rec, false)
	require.NoError(t, err)
	cfg.Servers = []string{proxy.Addr()}
	second := openRegistry(t, cfg)
	self := nextLife(rec)
	_, err = second.Look(bounded(t, patience), self)
	require.NoError(t, err)
	theirs := setBack(t, second, proxy, server.Conn(t), r.held.path, rec)
	resumed, err := second.Claim(bounded(t, patience), self, worker.DefaultLease)
	require.True(t, err != nil || resumed.WorkerID != rec.WorkerID, "%+v", resumed)
	left, _, err := server.Conn(t).Get(r.held.path)
	require.NoError(t, err)
	require.Equal(t, theirs, string(left))
}

// zkreg.R2: the owner comes back, reports, or is released and taken, in the very moment.
func TestClaimedInTheLastMoment(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	cfg := daemonConfig(server, madeRoot(t, server), "a")
	r, rec := claimed(t, cfg)
	_, err := r.Report(bounded(t, patience), rec, false)
	require.NoError(t, err)
	second := openRegistry(t, cfg)
	self := nextLife(rec)
	_, err = second.Look(bounded(t, patience), self)
	require.NoError(t, err)
	before(second, 1, func() {
		_, err := r.Report(bounded(t, patience), next(rec), false)
		require.NoError(t, err)
	})
	_, err = second.Claim(bounded(t, patience), self, worker.DefaultLease)
	require.ErrorIs(t, err, worker.ErrHeld)

	// Both start at once: the second one to write loses.
	first, second := openRegistry(t, cfg), openRegistry(t, cfg)
	selves := []worker.Record{nextLife(rec), nextLife(rec)}
	for i, r := range []*Registry{first, second} {
		_, err = r.Look(bounded(t, patience), selves[i])
		require.NoError(t, err)
	}
	before(second, 1, func() {
		rec, err = first.Claim(bounded(t, patience), selves[0], worker.DefaultLease)
		require.NoError(t, err)
	})
	_, err = second.Claim(bounded(t, patience), selves[1], worker.DefaultLease)
	require.ErrorIs(t, err, worker.ErrHeld)
	report(t, first, rec)
}

// Two copies of a new data directory start at once: one worker ID, one winner.
func TestTwoOfOneInstanceAtOnce(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	cfg := daemonConfig(server, madeRoot(t, server), "a")
	cfg.SessionTimeout = time.Second
	first, second := openRegistry(t, cfg), openRegistry(t, cfg)
	selves := []worker.Record{fresh(first), fresh(second)}
	selves[1].Instance = selves[0].Instance
	for i, r := range []*Registry{first, second} {
		_, err := r.Look(bounded(t, patience), selves[i])
		require.NoError(t, err)
	}
	var rec worker.Record
	before(second, 1, func() {
		var err error
		rec, err = first.Claim(bounded(t, patience), selves[0], worker.DefaultLease)
		require.NoError(t, err)
	})
	_, err := second.Claim(bounded(t, patience), selves[1], worker.DefaultLease)
	require.ErrorIs(t, err, worker.ErrHeld)
	require.Len(t, list1(t, cfg), 1)
	report(t, first, rec)
}

// A released entry whose owner comes back while another takes it over.
func TestOwnerReturnsDuringTakeover(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	root := madeRoot(t, server)
	plant(t, server.Conn(t), root, worker.Entry{WorkerID: 0, Node: "owner", Address: "10.0.0.5:8080", State: worker.StateReleased, Timestamp: 1, Ceiling: 2, Owner: "old"})
	owner := openRegistry(t, daemonConfig(server, root, "owner"))
	taker := openRegistry(t, daemonConfig(server, root, "taker"))
	self := fresh(taker)
	_, err := taker.Look(bounded(t, patience), self)
	require.NoError(t, err)
	var kept worker.Record
	back := fresh(owner)
	back.PriorOwners = []string{"old"}
	before(taker, 1, func() { kept = claim1(t, owner, back) })
	rec, err := taker.Claim(bounded(t, patience), self, worker.DefaultLease)
	require.NoError(t, err)
	require.Equal(t, int64(0), kept.WorkerID)
	require.NotEqual(t, int64(0), rec.WorkerID)
	report(t, owner, kept)
	report(t, taker, rec)
}

// zkreg.R1 under as many as can be at once: survivors put back, newcomers claim without
// any time to settle, and some take over. Whoever comes out active is alone.
func TestNoNumberTwice(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	const n = 6
	layout, err := snowflake.ParseLayout("41+4+18", snowflake.DefaultEpoch)
	require.NoError(t, err)
	config := func(root, node string) Config {
		cfg := daemonConfig(server, root, node)
		cfg.Layout, cfg.Settle = layout, time.Nanosecond
		return cfg
	}
	for round := range 5 {
		root := server.NewRoot(t)
		initCluster(t, config(root, ""))
		var survivors, newcomers []*Registry
		records := make([]worker.Record, n)
		for i := range n {
			r, rec := claimed(t, config(root, fmt.Sprintf("survivor%d", i)))
			survivors, records[i] = append(survivors, r), rec
			newcomers = append(newcomers, openRegistry(t, config(root, fmt.Sprintf("newcomer%d", i))))
		}
		require.NoError(t, removeAll(conn, root))
		opened := directory(t, config(root, ""))
		holders := make(chan int64, 2*n)
		var group sync.WaitGroup
		group.Go(func() { // too early, an operator
			_, err := opened.Open(bounded(t, patience))
			for errors.Is(err, worker.ErrNoCluster) {
				_, err = opened.Open(bounded(t, patience))
			}
			if err != nil {
				t.Error(err)
			}
		})
		for i := range n {
			group.Go(func() {
				rec, err := survivors[i].Report(bounded(t, patience), next(records[i]), true)
				switch {
				case err == nil:
					holders <- rec.WorkerID
				case !errors.Is(err, worker.ErrFenced):
					t.Errorf("survivor: %v", err)
				}
			})
			group.Go(func() {
				self := fresh(newcomers[i])
				_, err := newcomers[i].Look(bounded(t, patience), self)
				for errors.Is(err, worker.ErrNoCluster) {
					_, err = newcomers[i].Look(bounded(t, patience), self)
				}
				if err != nil {
					t.Error(err)
					return
				}
				rec, err := newcomers[i].Claim(bounded(t, patience), self, worker.DefaultLease)
				if err != nil {
					t.Error(err)
					return
				}
				holders <- rec.WorkerID
			})
		}
		group.Wait()
		close(holders)
		seen := map[int64]bool{}
		for id := range holders {
			require.False(t, seen[id], "round %d: worker %d twice", round, id)
			seen[id] = true
		}
		require.GreaterOrEqual(t, len(seen), n)
		all := map[int64]bool{}
		for _, e := range list1(t, config(root, "")) {
			require.Equal(t, worker.StateActive, e.State)
			require.False(t, all[e.WorkerID])
			all[e.WorkerID] = true
		}
		require.Equal(t, seen, all)
	}
}
