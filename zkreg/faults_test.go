package zkreg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
	"github.com/leafd/leafd/zkreg/zookeepertest"
)

// bounded is a context that a hung server doesn't outlive.
func bounded(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// claimed opens a registry and claims.
func claimed(t testing.TB, cfg Config) (*Registry, worker.Record) {
	t.Helper()
	r := openRegistry(t, cfg)
	return r, claim1(t, r, fresh(r))
}

func claim1(t testing.TB, r *Registry, self worker.Record) worker.Record {
	t.Helper()
	_, err := r.Look(bounded(t, patience), self)
	require.NoError(t, err)
	rec, err := r.Claim(bounded(t, patience), self, worker.DefaultLease)
	require.NoError(t, err)
	return rec
}

// next is the report after rec.
func next(rec worker.Record) worker.Record {
	rec.Timestamp += 3000
	rec.Ceiling += 3000
	return rec
}

func report(t testing.TB, r *Registry, rec worker.Record) worker.Record {
	t.Helper()
	rec, err := r.Report(bounded(t, patience), next(rec), true)
	require.NoError(t, err)
	return rec
}

func directory(t testing.TB, cfg Config) *Directory {
	t.Helper()
	d, err := OpenDirectory(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func list1(t testing.TB, cfg Config) []worker.Entry {
	t.Helper()
	all, err := directory(t, cfg).Entries(bounded(t, patience))
	require.NoError(t, err)
	return all
}

// deafAt makes the n-th transaction of r arrive, and its answer get lost on the
// wire: the caller is cut off without one.
func deafAt(t *testing.T, r *Registry, proxy *zookeepertest.Proxy, n int) {
	t.Helper()
	var writes int
	r.commit = func(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
		writes++
		if writes != n {
			return r.session.Multi(ctx, connection, ops...)
		}
		proxy.Deaf(t, true)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		responses, err := r.session.Multi(short, connection, ops...)
		proxy.Deaf(t, false)
		return responses, err
	}
}

// zkreg.R3 on the wire: one entry a node, whichever answer got lost.
func TestAnswerLostOnTheWire(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	root := madeRoot(t, server)
	for n := 1; n <= 2; n++ {
		proxy := zookeepertest.NewProxy(t, server.Addr())
		cfg := daemonConfig(server, root, fmt.Sprintf("node-%d", n))
		cfg.Servers = []string{proxy.Addr()}
		r := openRegistry(t, cfg)
		self := fresh(r)
		_, err := r.Look(bounded(t, patience), self)
		require.NoError(t, err)
		deafAt(t, r, proxy, n)
		rec, err := r.Claim(bounded(t, patience), self, worker.DefaultLease)
		require.NoError(t, err)
		require.Equal(t, int64(n-1), rec.WorkerID, "no worker ID was wasted")
		require.Len(t, list1(t, cfg), n)

		deafAt(t, r, proxy, 1)
		rec = next(rec)
		_, err = r.Report(bounded(t, patience), rec, true)
		require.ErrorIs(t, err, worker.ErrUnreachable)
		require.Equal(t, rec.Ceiling, list1(t, cfg)[n-1].Ceiling, "it was done")
		rec = report(t, r, rec)
		require.Equal(t, rec.Ceiling, list1(t, cfg)[n-1].Ceiling)
	}
}

// A server that hangs gets many reports that nobody waits for any more; none of
// them is taken for somebody else's.
func TestReportsThroughAHungServer(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Start(t)
	initCluster(t, daemonConfig(server, "/leaf", ""))
	r, rec := claimed(t, daemonConfig(server, "/leaf", "a"))
	for range 3 {
		server.Pause(t)
		for range 5 {
			rec = next(rec)
			_, err := r.Report(bounded(t, 100*time.Millisecond), rec, true)
			require.ErrorIs(t, err, worker.ErrUnreachable)
		}
		server.Resume(t)
		rec = report(t, r, rec)
		rec = report(t, r, rec)
	}
	require.Len(t, list1(t, daemonConfig(server, "/leaf", "")), 1)
	server.Pause(t)
	defer server.Resume(t)
	require.NoError(t, r.Close(), "it returns")
}

// The server comes back with an empty disk: sessions, root and entries are gone.
func TestServerLosesItsDisk(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Start(t)
	initCluster(t, daemonConfig(server, "/leaf", ""))
	one, first := claimed(t, daemonConfig(server, "/leaf", "one"))
	two, second := claimed(t, daemonConfig(server, "/leaf", "two"))
	events := make(chan zksession.Event, 1000)
	cfg := daemonConfig(server, "/leaf", "three")
	cfg.Settle = 0 // the default
	cfg.Notify = func(e zksession.Event) { events <- e }

	server.Wipe(t)
	var group sync.WaitGroup
	var third worker.Record
	var lookErr, claimErr error
	three := openRegistry(t, cfg)
	group.Go(func() {
		self := fresh(three)
		_, lookErr = three.Look(bounded(t, patience), self)
		for errors.Is(lookErr, worker.ErrNoCluster) {
			_, lookErr = three.Look(bounded(t, patience), self)
		}
		if lookErr == nil {
			third, claimErr = three.Claim(bounded(t, patience), self, worker.DefaultLease)
		}
	})
	first, second = report(t, one, first), report(t, two, second)
	openCluster(t, daemonConfig(server, "/leaf", ""))
	group.Wait()
	require.NoError(t, errors.Join(lookErr, claimErr))
	require.Equal(t, []int64{0, 1}, []int64{first.WorkerID, second.WorkerID})
	require.NotContains(t, []int64{0, 1}, third.WorkerID, "it was given 0 at first")
	require.Equal(t, first.Cluster, second.Cluster)
	require.Equal(t, first.Cluster, third.Cluster)
	for _, e := range list1(t, daemonConfig(server, "/leaf", "")) {
		require.Equal(t, worker.StateActive, e.State)
		require.True(t, e.Live, e.Node)
	}
	require.Eventually(t, func() bool {
		select {
		case e := <-events:
			return e.Kind == EventSettling
		default:
			return false
		}
	}, patience, time.Millisecond)
}

// ZooKeeper was set back: our own older write stands at a lower version.
func TestServerIsSetBack(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	events := make(chan zksession.Event, 1000)
	cfg := daemonConfig(server, madeRoot(t, server), "a")
	cfg.Notify = func(e zksession.Event) { events <- e }
	r, rec := claimed(t, cfg)
	rec = report(t, r, rec)
	r.held.version, r.held.mzxid, r.held.content = r.held.version+5, r.held.mzxid+5, nil // what was written and then lost
	rec = report(t, r, rec)
	rec = report(t, r, rec)
	require.Equal(t, rec.Ceiling, list1(t, cfg)[0].Ceiling)
	require.Eventually(t, func() bool {
		select {
		case e := <-events:
			return e.Kind == EventDataLost
		default:
			return false
		}
	}, patience, time.Millisecond)

	// Set back to another's write, it is the other's.
	conn := server.Conn(t)
	raw, _, err := conn.Get(r.held.path)
	require.NoError(t, err)
	data, err := decodeEntry(r.held.path, raw)
	require.NoError(t, err)
	data.Owner = "other"
	_, err = conn.Set(r.held.path, encode(data), -1)
	require.NoError(t, err)
	r.held.version, r.held.mzxid = r.held.version+5, r.held.mzxid+5
	_, err = r.Report(bounded(t, patience), next(rec), true)
	require.ErrorIs(t, err, worker.ErrFenced)
}

// A start without ZooKeeper confirms itself later, a few seconds at a time: its
// own dead process's ephemeral node mustn't be taken for another's, and the
// seconds add up.
func TestClaimInSmallSteps(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	cfg := daemonConfig(server, madeRoot(t, server), "a")
	r, rec := claimed(t, cfg)
	rec.Timestamp -= 20_000
	rec.Ceiling -= 20_000
	_, err := r.Report(bounded(t, patience), rec, false)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	plantLive(t, server.Conn(t), cfg.Root, worker.Peer{Node: "a", Address: "10.0.0.5:8080", Owner: rec.Owner, Instance: rec.Instance}) // it never goes
	r = openRegistry(t, cfg)
	self := nextLife(rec)
	steps := 0
	require.Eventually(t, func() bool {
		steps++
		_, err := r.Look(bounded(t, patience), self)
		require.NoError(t, err)
		_, err = r.Claim(bounded(t, 500*time.Millisecond), self, worker.DefaultLease)
		if err != nil {
			require.ErrorIs(t, err, worker.ErrUnreachable)
			require.NotErrorIs(t, err, worker.ErrHeld)
		}
		return err == nil
	}, patience, time.Millisecond)
	require.Greater(t, steps, 1)
}
