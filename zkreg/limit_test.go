package zkreg

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
)

// A limit has to have passed by our clock and by ZooKeeper's: one that is wrong takes
// nothing away from anybody.
func TestLimitIsJudgedByBothClocks(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	layout, err := snowflake.ParseLayout("41+1+21", snowflake.DefaultEpoch)
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		limit, off time.Duration // of now: the limit, and our clock
		taken      bool
	}{
		"passed on both":              {-time.Second, 0, true},
		"ahead of both":               {time.Hour, 0, false},
		"passed on our clock alone":   {time.Hour, 2 * time.Hour, false},
		"passed on ZooKeeper's alone": {-time.Second, -time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := daemonConfig(server, server.NewRoot(t), "new")
			cfg.Layout, cfg.Clock = layout, offClock{clock.System(), tt.off}
			initCluster(t, cfg)
			conn := server.Conn(t)
			now := clock.System().Read().Wall()
			plant(t, conn, cfg.Root, worker.Entry{
				WorkerID: 0, Node: "gone", Address: "10.0.0.5:8080", State: worker.StateActive, Owner: "gone", Instance: "gone",
				Timestamp: 1, Ceiling: 1, Limit: now.Add(tt.limit),
			})
			plant(t, conn, cfg.Root, worker.Entry{WorkerID: 1, Node: "java", Address: "10.0.0.6:8080", State: StateJava, Timestamp: 1})
			r := openRegistry(t, cfg)
			rec, err := r.Claim(bounded(t, patience), looked(t, r, fresh(r)), worker.DefaultLease)
			if !tt.taken {
				require.ErrorIs(t, err, worker.ErrExhausted)
				return
			}
			require.NoError(t, err)
			require.Equal(t, int64(0), rec.WorkerID)
			require.Equal(t, now.Add(tt.limit), rec.Floor)
		})
	}
}

// offClock is a wall clock that is wrong.
type offClock struct {
	clock.Clock

	by time.Duration
}

func (c offClock) Read() clock.Reading {
	r := c.Clock.Read()
	r.WallNS += int64(c.by)
	return r
}

// meddled is a session over which somebody else is faster than each write of a node.
type meddled struct {
	Session

	path   string
	faster func()
}

func (m meddled) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	if path == m.path {
		m.faster()
	}
	return m.Session.Set(ctx, path, data, version)
}

// Between the judgement and the write the owner reports, or another takes it over.
func TestReleaseLosesARace(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	r, rec := claimed(t, daemonConfig(server, madeRoot(t, server), "a"))
	release := func(faster func()) error {
		d := directory(t, r.cfg)
		d.session = meddled{d.session, r.held.path, faster}
		_, err := d.Release(bounded(t, patience), 0, true)
		return err
	}
	require.ErrorIs(t, release(func() { rec = report(t, r, rec) }), worker.ErrInUse)
	require.ErrorIs(t, release(func() { require.NoError(t, server.Conn(t).Delete(r.held.path, -1)) }), worker.ErrNoEntry)
	report(t, r, rec) // it puts back what a hand has removed
}

// An ephemeral node of an earlier session would go with that, under us.
func TestTemporaryOfAnotherSession(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	r, rec := claimed(t, daemonConfig(server, madeRoot(t, server), "a"))
	plantLive(t, conn, r.root, worker.Peer{Node: "a", Address: "10.0.0.5:8080", Owner: rec.Owner, Instance: rec.Instance})
	rec = report(t, r, rec)
	_, stat, err := conn.Get(r.temporaryOf("a"))
	require.NoError(t, err)
	require.Equal(t, r.session.Info().ID, stat.EphemeralOwner)

	// Claim does the same: an answer was lost, and the session with it.
	plantLive(t, conn, r.root, worker.Peer{Node: "a", Address: "10.0.0.5:8080", Owner: rec.Owner, Instance: rec.Instance})
	rec = claim1(t, r, rec)
	_, stat, err = conn.Get(r.temporaryOf("a"))
	require.NoError(t, err)
	require.Equal(t, r.session.Info().ID, stat.EphemeralOwner)
	report(t, r, rec)

	// And what is another's is left alone at the end.
	require.NoError(t, conn.Delete(r.temporaryOf("a"), -1))
	_, err = conn.Create(r.temporaryOf("a"), []byte("{}"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	require.NoError(t, r.Close())
	found, _, err := conn.Exists(r.temporaryOf("a"))
	require.NoError(t, err)
	require.True(t, found)
}
