package zkreg

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
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

// Whoever makes it, and however many at once: there is one cluster.
func TestInitMakesOneCluster(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	cfg := daemonConfig(server, server.NewRoot(t)+"/deep/leaf", "")
	_, err := directory(t, cfg).Status(bounded(t, patience))
	require.ErrorIs(t, err, worker.ErrNoCluster)
	require.ErrorContains(t, err, "leafd cluster init --zk "+server.Addr()+" --zk-root "+cfg.Root)
	const n = 8
	results, errs := make([]InitResult, n), make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		d := directory(t, cfg)
		group.Go(func() { results[i], errs[i] = d.Init(bounded(t, patience)) })
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
	require.Len(t, before, 3)
	require.Equal(t, InitStands, initCluster(t, cfg))
	require.Equal(t, before, stats(t, conn, cfg.Root), "nothing was changed")
	_, err = directory(t, Config{Servers: cfg.Servers, Clock: cfg.Clock}).Init(bounded(t, patience))
	require.ErrorContains(t, err, "layout")
}

// What an Init that was cut short has left is completed: by Init, or by a daemon where there is
// a parent. What is not known of the root stays.
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
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := daemonConfig(server, server.NewRoot(t)+"/leaf", "a")
			r := openRegistry(t, cfg)
			forever := cfg.Root + "/leaf_forever"
			begun := r.newRoot(cfg.Layout, "c")
			begun.unknown = map[string]json.RawMessage{"note": []byte(`"kept"`)}
			put(t, conn, cfg.Root, encode(begun))
			if tt.parent {
				ensurePath(t, conn, forever)
				require.Equal(t, ParentUnrecorded, statusOf(t, cfg).Parent)
			} else {
				_, err := r.Look(bounded(t, patience), fresh(r))
				require.ErrorIs(t, err, worker.ErrNoCluster)
				require.ErrorContains(t, err, "leafd cluster init")
				require.Equal(t, ParentAbsent, statusOf(t, cfg).Parent)
			}
			_, before, err := conn.Get(cfg.Root)
			require.NoError(t, err)
			if tt.byOne {
				claim1(t, r, fresh(r))
			} else {
				require.Equal(t, InitFinished, initCluster(t, cfg))
			}
			_, parent, err := conn.Exists(forever)
			require.NoError(t, err)
			require.Equal(t, map[string]any{
				"cluster": "c", "epoch": 1288834974657., "layout": "41+10+12", "forever": forever, "parent_czxid": float64(parent.Czxid),
				"longest_lease": 604800000., "losses": 0., "floor": 0., "note": "kept",
			}, rootOf(t, conn, cfg))
			_, after, err := conn.Get(cfg.Root)
			require.NoError(t, err)
			require.Equal(t, before.Version+1, after.Version, "one write")
			require.Equal(t, InitStands, initCluster(t, cfg))
			_, rec := claimed(t, cfg2(cfg, "b"))
			require.Equal(t, "c", rec.Cluster)
		})
	}
}

// A parent that was made again by somebody else is taken by who belongs to the cluster, and
// the root then says so; Init leaves it alone.
func TestParentLost(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	cfg := daemonConfig(server, madeRoot(t, server), "a")
	r, rec := claimed(t, cfg)
	require.NoError(t, removeAll(conn, r.forever))
	ensurePath(t, conn, r.forever)
	require.Equal(t, InitStands, initCluster(t, cfg))
	require.Equal(t, ParentOther, statusOf(t, cfg).Parent)
	newcomer := openRegistry(t, cfg2(cfg, "b"))
	self := looked(t, newcomer, fresh(newcomer))
	_, err := newcomer.Claim(bounded(t, 5*time.Second), self, worker.DefaultLease)
	require.ErrorIs(t, err, worker.ErrNoCluster)
	require.ErrorContains(t, err, rec.Cluster)
	s := statusOf(t, cfg)
	require.Equal(t, ParentRecorded, s.Parent, "anybody, newcomers too, notes the loss")
	require.Equal(t, int64(1), s.Losses)
	require.WithinDuration(t, time.Now().Add(168*time.Hour), s.Floor.Time(), time.Minute)

	rec = report(t, r, rec)
	s = statusOf(t, cfg)
	require.Equal(t, []int64{1, 1}, []int64{rec.Losses, s.Losses})
	require.Equal(t, []int{1, 1}, []int{s.Entries, s.Live})
	s = openCluster(t, cfg)
	require.WithinDuration(t, time.Now(), s.Floor.Time(), time.Minute)
	require.NotEqual(t, rec.WorkerID, claim1(t, newcomer, self).WorkerID)
}

// After a backup was put back nobody gets a worker ID until every lost piece has ended.
// A daemon with a great threshold, its clock ahead by nearly that, is cut off and goes on by
// its file. ZooKeeper loses data, and who notes it has a small threshold: the floor lies
// beyond the piece all the same.
func TestLossReckonsWithTheGreatestThreshold(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	cfg := daemonConfig(server, madeRoot(t, server), "a")
	narrow := cfg
	cfg.Lease, cfg.Threshold = worker.DefaultLease, 30*time.Second
	r, rec := claimed(t, cfg)
	rec.Timestamp = clock.MillisOf(time.Now().Add(cfg.Threshold - time.Second))
	rec.Limit = rec.Timestamp.Add(cfg.Lease)
	rec, err := r.Report(bounded(t, patience), rec, true)
	require.NoError(t, err)
	s, err := directory(t, narrow).Recover(bounded(t, patience))
	require.NoError(t, err)
	require.Greater(t, s.Floor, rec.Limit)
	require.NoError(t, r.Close())
}

func TestRecover(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	cfg := daemonConfig(server, madeRoot(t, server), "a")
	r, rec := claimed(t, cfg)
	before, err := directory(t, cfg).zkNow(bounded(t, patience))
	require.NoError(t, err)
	s, err := directory(t, cfg).Recover(bounded(t, patience))
	require.NoError(t, err)
	require.GreaterOrEqual(t, s.Floor, before.Add(168*time.Hour+2*worker.DefaultClockThreshold), "others' thresholds may be greater than ours, of a millisecond")
	require.Equal(t, ParentRecorded, s.Parent)
	require.Equal(t, int64(1), s.Losses)
	require.WithinDuration(t, time.Now().Add(168*time.Hour), s.Floor.Time(), time.Minute)
	rec = report(t, r, rec)
	require.Equal(t, int64(1), rec.Losses, "the holder goes on")
	newcomer := openRegistry(t, cfg2(cfg, "b"))
	self := looked(t, newcomer, fresh(newcomer))
	newcomer.cfg.Settle = patience
	waits := bounded(t, patience+time.Second)
	_, err = newcomer.Claim(waits, self, worker.DefaultLease)
	require.ErrorIs(t, err, worker.ErrNoCluster)
	require.NoError(t, waits.Err(), "it waits for no longer than it could settle afterwards")
	newcomer.cfg.Settle = cfg.Settle
	floor := openCluster(t, cfg).Floor
	require.GreaterOrEqual(t, claim1(t, newcomer, self).Floor, floor)
	require.Equal(t, floor, openCluster(t, cfg).Floor, "open has nothing left to do")
}

// A claim that is under way while the parent goes, and is made again by a survivor that
// has not recorded it yet, ends under none of the two: the root looks as old as it was.
func TestParentReplacedDuringAClaim(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	cfg := daemonConfig(server, madeRoot(t, server), "a")
	_, rec := claimed(t, cfg)
	newcomer := openRegistry(t, cfg2(cfg, "b"))
	self := looked(t, newcomer, fresh(newcomer))
	before(newcomer, 1, func() {
		require.NoError(t, removeAll(conn, newcomer.forever))
		ensurePath(t, conn, newcomer.forever)
	})
	_, err := newcomer.Claim(bounded(t, patience/4), self, worker.DefaultLease) // it waits for an operator until then
	require.ErrorIs(t, err, worker.ErrNoCluster)
	for _, e := range list1(t, cfg) {
		require.Equal(t, worker.StateClaiming, e.State, "worker %d, which %s has", e.WorkerID, rec.Owner)
	}
}

// A claim settles until every session that the server grants may have ended, however short the
// one asked for.
func TestSettlesForTheGrantedSession(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	cfg := daemonConfig(server, madeRoot(t, server), "a")
	cfg.SessionTimeout, cfg.Settle = 100*time.Millisecond, 0
	r := openRegistry(t, cfg)
	looked(t, r, fresh(r))
	granted := r.session.Info().Timeout
	require.Greater(t, granted, cfg.SessionTimeout)
	require.Equal(t, granted+settleBeyondSession, r.settleTime())
}

// ZooKeeper that was set back, with its daemons running on, gives their worker IDs out again:
// a new worker ID waits for their objection, but under a new root. Times are from the root's
// creation, in seconds.
func TestWhatSettles(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		losses, claimed int64
		settled         bool // already, and something has changed since
		want            time.Duration
	}{
		"a new root":                      {claimed: 59},
		"a root that is no longer new":    {claimed: 60, want: 16 * time.Second},
		"years later":                     {claimed: 1e8, want: 16 * time.Second},
		"a new root that tells of a loss": {losses: 1, claimed: 10, want: 16 * time.Second},
		"it has settled":                  {claimed: 100, settled: true},
	} {
		t.Run(name, func(t *testing.T) {
			slept := &sleeper{Clock: clock.System()}
			r := openRegistry(t, Config{
				Servers: []string{"127.0.0.1:1"}, Node: "a", Address: "10.0.0.5:8080", Layout: snowflake.DefaultLayout(), Clock: slept, Settle: 16 * time.Second,
			})
			c := &claim{Registry: r, root: &root{rootData: rootData{Losses: tt.losses}, stat: &zk.Stat{}}}
			own := entry{path: "/a", stat: &zk.Stat{Mtime: tt.claimed * 1000, Mzxid: 7}}
			if tt.settled {
				c.settled = settlingOf(own, c)
			}
			require.NoError(t, c.settle(t.Context(), own))
			require.Equal(t, tt.want, slept.total)
			if tt.want > 0 { // whatever changes, it settles again
				require.NoError(t, c.settle(t.Context(), own))
				require.Equal(t, tt.want, slept.total)
				own.stat.Mzxid++
				require.NoError(t, c.settle(t.Context(), own))
				c.root.stat.Version++
				require.NoError(t, c.settle(t.Context(), own))
				require.Equal(t, 3*tt.want, slept.total)
			}
		})
	}
}

// sleeper adds up what is slept, and does not sleep.
type sleeper struct {
	clock.Clock

	total time.Duration
}

func (s *sleeper) Sleep(_ context.Context, d time.Duration) error {
	s.total += d
	return nil
}

// Nothing of a cluster is made by a daemon that has no record of one, whatever it calls.
func TestNewcomerMakesNothing(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	cfg := daemonConfig(server, madeRoot(t, server), "a")
	r := openRegistry(t, cfg)
	self := looked(t, r, fresh(r))
	require.NoError(t, removeAll(conn, cfg.Root)) // between Look and Claim
	_, err := r.Claim(bounded(t, patience), self, worker.DefaultLease)
	require.ErrorIs(t, err, worker.ErrNoCluster)
	found, _, err := conn.Exists(cfg.Root)
	require.NoError(t, err)
	require.False(t, found)
}
