package zkreg

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/worker/registrytest"
	"github.com/leafd/leafd/zkreg/zookeepertest"
)

// One clock that is wrong doesn't make an entry old: neither ours, against which
// the owner's timestamp is held, nor ZooKeeper's, which dates the last write.
func TestReclaimNeedsBothClocks(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	layout, err := snowflake.ParseLayout("41+1+21", snowflake.DefaultEpoch)
	require.NoError(t, err)
	const after = time.Second
	for name, tt := range map[string]struct {
		timestamp time.Duration // from now
		wait      bool          // until the last write is old
		taken     bool
	}{
		"both long ago":       {-time.Hour, true, true},
		"written just now":    {-time.Hour, false, false},
		"reported in future":  {time.Hour, true, false},
		"reported a bit late": {0, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, server.Conn(t), server.NewRoot(t), server.Addr())
			w.Init(t, layout)
			opts := registrytest.Options{Layout: layout, ReclaimAfter: after}
			if !tt.wait {
				opts.ReclaimAfter = time.Minute // no machine is so slow
			}
			now := clock.System().Read().Wall()
			w.Plant(t, worker.Entry{
				WorkerID: 0, Node: "gone", Address: "10.0.0.5:8080", State: worker.StateActive, Owner: "gone",
				Timestamp: now.Add(tt.timestamp), Ceiling: now.Add(tt.timestamp), ReclaimAfter: after,
			})
			w.Plant(t, worker.Entry{WorkerID: 1, Node: "java", Address: "10.0.0.6:8080", State: worker.StateActive, Timestamp: 1})
			if tt.wait {
				w.Pass(t, after+100*time.Millisecond)
			}
			r := w.Open(t, "new", "10.0.0.7:8080", opts)
			self := worker.Record{Node: "new", WorkerID: worker.NoWorkerID, Owner: uuid.NewString()}
			_, err := r.Look(bounded(t, patience), self)
			require.NoError(t, err)
			rec, err := r.Claim(bounded(t, patience), self)
			if !tt.taken {
				require.ErrorIs(t, err, worker.ErrExhausted)
				return
			}
			require.NoError(t, err)
			require.Equal(t, int64(0), rec.WorkerID)
			require.Equal(t, now.Add(tt.timestamp), rec.Ceiling)
		})
	}
}

// Between the judgement and the write the owner reports, or another takes it over.
func TestReleaseLosesARace(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	r, rec := claimed(t, daemonConfig(server, madeRoot(t, server), "a"))
	d := directory(t, r.cfg)
	e, err := d.find(bounded(t, patience), 0)
	require.NoError(t, err)
	rec = report(t, r, rec)
	require.ErrorIs(t, d.markReleased(bounded(t, patience), e), worker.ErrInUse)
	require.NoError(t, server.Conn(t).Delete(e.path, -1))
	require.ErrorIs(t, d.markReleased(bounded(t, patience), e), worker.ErrNoEntry)
	_, err = r.Report(bounded(t, patience), next(rec), true)
	require.ErrorIs(t, err, worker.ErrFenced)
}

// An ephemeral node of an earlier session would go with that, under us.
func TestTemporaryOfAnotherSession(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	w := newWorld(t, server.Conn(t), madeRoot(t, server), server.Addr())
	r, rec := claimed(t, daemonConfig(server, w.p.root, "a"))
	w.PlantLive(t, worker.Peer{Node: "a", Address: "10.0.0.5:8080", Owner: rec.Owner})
	rec = report(t, r, rec)
	_, stat, err := w.conn.Get(r.temporaryOf("a"))
	require.NoError(t, err)
	require.Equal(t, r.session.ID(), stat.EphemeralOwner)

	// Claim does the same: an answer was lost, and the session with it.
	w.PlantLive(t, worker.Peer{Node: "a", Address: "10.0.0.5:8080", Owner: rec.Owner})
	rec = claim1(t, r, rec)
	_, stat, err = w.conn.Get(r.temporaryOf("a"))
	require.NoError(t, err)
	require.Equal(t, r.session.ID(), stat.EphemeralOwner)
	report(t, r, rec)

	// And what is another's is left alone at the end.
	require.NoError(t, w.conn.Delete(r.temporaryOf("a"), -1))
	_, err = w.conn.Create(r.temporaryOf("a"), []byte("{}"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	require.NoError(t, r.Close())
	found, _, err := w.conn.Exists(r.temporaryOf("a"))
	require.NoError(t, err)
	require.True(t, found)
}
