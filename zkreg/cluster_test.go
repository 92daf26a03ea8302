package zkreg

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
)

// rootOf reads the root of cfg as it stands.
func rootOf(t testing.TB, conn *zk.Conn, cfg Config) map[string]any {
	t.Helper()
	data, _, err := conn.Get(cfg.Root)
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(data, &fields))
	return fields
}

func statusOf(t testing.TB, cfg Config) Status {
	t.Helper()
	s, err := directory(t, cfg).Status(bounded(t, patience))
	require.NoError(t, err)
	return s
}

// What the daemon that notes a loss knows of others is kept with the note, though its connection breaks
// right after that.
func TestNotedWithWhoWasThere(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	for name, lost := range map[string]func(t *testing.T, r *Registry){
		"the entry": func(t *testing.T, r *Registry) {
			t.Helper()
			require.NoError(t, server.Conn(t).Delete(r.entryOf(0), -1))
		},
		"all": func(t *testing.T, r *Registry) {
			t.Helper()
			require.NoError(t, removeAll(server.Conn(t), r.root))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, me := claimed(t, daemonConfig(server, madeRoot(t, server), "a"))
			me.Peers = []string{"10.0.0.6:8080", "10.0.0.7:8080"}
			lost(t, r)
			s, err := r.Look(bounded(t, patience), me)
			require.NoError(t, err)
			do := worker.Decide(me, s, worker.Moment{Clock: me.Timestamp, Running: true})
			noting, end := context.WithCancel(t.Context())
			session := r.session
			r.session = noted{session, end}
			require.NoError(t, r.FixRoot(noting, s, me, do))
			r.session = session
			_, err = directory(t, r.cfg).Recover(bounded(t, patience)) // which makes the root name its parent, and knows nobody
			require.NoError(t, err)
			require.Equal(t, me.Peers, statusOf(t, r.cfg).Known)
		})
	}
}

// noted is a session that breaks once a loss is noted.
type noted struct {
	Session

	end context.CancelFunc
}

func (n noted) Multi(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	responses, err := n.Session.Multi(ctx, connection, ops...)
	if set, ok := ops[0].(*zk.SetDataRequest); ok && err == nil && len(set.Data) > 0 {
		n.end()
	}
	return responses, err
}

// Any number of processes may make it at once: there is one cluster.
func TestInitMakesOneCluster(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	cfg := daemonConfig(server, server.NewRoot(t)+"/deep/leaf", "")
	_, err := directory(t, cfg).Status(bounded(t, patience))
	require.ErrorIs(t, err, worker.ErrNoCluster)
	require.ErrorContains(t, err, "it has lost its data, or the ensemble is new")
	require.NotContains(t, err.Error(), "init")
	_, err = directory(t, cfg).Init(bounded(t, patience), worker.DefaultLease, 0, false)
	require.ErrorIs(t, err, worker.ErrNoCluster, "none is made without that word")
	const n = 8
	results, errs := make([]InitResult, n), make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		d := directory(t, cfg)
		group.Go(func() { results[i], errs[i] = d.Init(bounded(t, patience), 30*24*time.Hour, 0, true) })
	}
	group.Wait()
	made := 0
	for i, result := range results {
		require.NoError(t, errs[i])
		if result == InitMade {
			made++
		}
	}
	require.Equal(t, 1, made, "%v", results)
	before := stats(t, conn, cfg.Root)
	require.Len(t, before, 4)
	require.Equal(t, InitStands, initCluster(t, cfg))
	require.Equal(t, before, stats(t, conn, cfg.Root), "nothing was changed")
	require.Equal(t, 30*24*time.Hour, statusOf(t, cfg).LongestLease())
	_, err = directory(t, Config{Servers: cfg.Servers, Clock: cfg.Clock}).Init(bounded(t, patience), worker.DefaultLease, 0, true)
	require.ErrorContains(t, err, "layout")
	_, err = directory(t, cfg).Init(bounded(t, patience), worker.YoungLease-1, 0, true)
	require.ErrorContains(t, err, "longest lease")
}

// What an Init that was cut short has left is completed, by Init or by any daemon: nothing was claimed
// under a root that never named a parent. What is not known of the root stays.
func TestRootIsCompleted(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	for _, tt := range []struct {
		name          string
		parent, byOne bool // byOne: a daemon completes it
	}{
		{"by init", true, false},
		{"by init, without a parent", false, false},
		{"by a daemon", true, true},
		{"by a daemon, without a parent", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := daemonConfig(server, server.NewRoot(t)+"/leaf", "a")
			r := openRegistry(t, cfg)
			forever := cfg.Root + "/leaf_forever"
			begun := r.newRoot("c", worker.DefaultLease, 0)
			begun.LongestSessionMS = 20_000
			put(t, conn, cfg.Root, encode(begun))
			if tt.parent {
				ensurePath(t, conn, forever)
			}
			require.Zero(t, statusOf(t, cfg).Root.Parent)
			require.Equal(t, tt.parent, statusOf(t, cfg).Parent != 0)
			_, before, err := conn.Get(cfg.Root)
			require.NoError(t, err)
			if tt.byOne {
				_, do := decided(t, r, fresh(r))
				require.Equal(t, worker.Enroll, do)
			} else {
				require.Equal(t, InitFinished, initCluster(t, cfg))
			}
			_, parent, err := conn.Exists(forever)
			require.NoError(t, err)
			require.Equal(t, map[string]any{
				"cluster": "c", "epoch": 1288834974657., "layout": "41+10+12", "forever": forever, "parent_czxid": float64(parent.Czxid),
				"longest_lease": 604800000., "longest_session": 20_000., "longest_lend": 0., "losses": 0., "lost_at": 0., "floor": 0.,
			}, rootOf(t, conn, cfg))
			_, after, err := conn.Get(cfg.Root)
			require.NoError(t, err)
			require.Equal(t, before.Version+1, after.Version, "one write")
			require.Equal(t, InitStands, initCluster(t, cfg))
			_, me := claimed(t, cfg2(cfg, "b"))
			require.Equal(t, "c", me.Cluster)
		})
	}
}

// A root that was created empty, by hand or as another's parent, is none until it is
// filled, once.
func TestEmptyRoot(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	root := server.NewRoot(t)
	ensurePath(t, server.Conn(t), root)
	below, cfg := daemonConfig(server, root+"/dc1/leaf", "a"), daemonConfig(server, root, "a")
	initCluster(t, below)
	_, inner := claimed(t, below)
	r := openRegistry(t, cfg)
	_, do := decided(t, r, fresh(r))
	require.Equal(t, worker.Await, do)
	require.Equal(t, InitMade, initCluster(t, cfg))
	_, first := claimed(t, cfg)
	_, second := claimed(t, cfg2(cfg, "b"))
	require.Equal(t, first.Cluster, second.Cluster)
	require.NotEqual(t, inner.Cluster, first.Cluster)
}

// With the entries elsewhere, a root that is lost is made again, and the entry resumes.
func TestRootLostAlone(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	base := server.NewRoot(t)
	cfg := daemonConfig(server, base+"/leaf", "a")
	cfg.ForeverPath = base + "/forever"
	initCluster(t, cfg)
	r, me := claimed(t, cfg)
	require.NoError(t, removeAll(conn, base+"/leaf"))
	_, do := decided(t, r, me)
	require.Equal(t, worker.Resume, do)
	require.NoError(t, report(t, r, me))
	root := rootOf(t, conn, cfg)
	require.Equal(t, []any{me.Cluster, 1.}, []any{root["cluster"], root["losses"]})

	// Another layout's root in its place is none of ours.
	other := r.newRoot(me.Cluster, worker.DefaultLease, 0)
	other.Epoch = 1
	_, err := conn.Set(base+"/leaf", encode(other), -1)
	require.NoError(t, err)
	_, err = r.Look(bounded(t, patience), me)
	require.ErrorIs(t, err, worker.ErrForeign)
}

// loss-raises-floor: a daemon with a great threshold, its clock ahead by nearly that, is cut off and goes on
// by its file. The daemon that notes the loss has a small threshold: the floor lies beyond the piece
// all the same.
func TestLossReckonsWithTheGreatestThreshold(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	cfg := daemonConfig(server, madeRoot(t, server), "a") // of a millisecond
	d := directory(t, cfg)
	before, err := d.zkNow(bounded(t, patience))
	require.NoError(t, err)
	s, err := d.Recover(bounded(t, patience))
	require.NoError(t, err)
	require.GreaterOrEqual(t, s.Floor, before.Add(168*time.Hour+2*worker.DefaultClockThreshold))
	require.Equal(t, []any{s.Root.Parent, int64(1)}, []any{s.Parent, s.Losses})
	cfg.Threshold = 30 * time.Second
	s, err = directory(t, cfg).Recover(bounded(t, patience))
	require.NoError(t, err)
	require.GreaterOrEqual(t, s.Floor, before.Add(168*time.Hour+2*cfg.Threshold))
	floor, err := directory(t, cfg).Open(bounded(t, patience))
	require.NoError(t, err)
	require.InDelta(t, time.Minute, floor.Floor.Sub(before), float64(patience))
	again, err := directory(t, cfg).Open(bounded(t, patience))
	require.NoError(t, err)
	require.Equal(t, floor.Floor, again.Floor, "open has nothing left to do")
}
