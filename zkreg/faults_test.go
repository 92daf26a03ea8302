package zkreg

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
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

// looked has r look for self, and returns self.
func looked(t testing.TB, r *Registry, self worker.Record) worker.Record {
	t.Helper()
	_, err := r.Look(bounded(t, patience), self)
	require.NoError(t, err)
	return self
}

func claim1(t testing.TB, r *Registry, self worker.Record) worker.Record {
	t.Helper()
	rec, err := r.Claim(bounded(t, patience), looked(t, r, self), worker.DefaultLease)
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

// awaitEvent waits for an event of kind, whose text has says in it.
func awaitEvent(t testing.TB, events <-chan zksession.Event, kind zksession.EventKind, says string) {
	t.Helper()
	require.Eventually(t, func() bool {
		select {
		case e := <-events:
			return e.Kind == kind && strings.Contains(e.Err.Error(), says)
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
	later := &zk.Stat{Version: r.held.stat.Version + 5, Mzxid: r.held.stat.Mzxid + 5}
	r.held.stat, r.held.payload = later, nil // what was written and then lost
	rec = report(t, r, rec)
	rec = report(t, r, rec)
	require.Equal(t, rec.Ceiling, list1(t, cfg)[0].Ceiling)
	awaitEvent(t, events, EventDataLost, "")

	// Set back to another's write, it is the other's.
	conn := server.Conn(t)
	raw, _, err := conn.Get(r.held.path)
	require.NoError(t, err)
	data, err := decodeEntry(r.held.path, raw)
	require.NoError(t, err)
	data.Owner = "other"
	_, err = conn.Set(r.held.path, encode(data), -1)
	require.NoError(t, err)
	r.held.stat = later
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
