package zkreg

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
)

// ensurePath makes p and what is above it.
func ensurePath(t testing.TB, conn *zk.Conn, p string) {
	t.Helper()
	for _, each := range append(parents(p), p) {
		_, err := conn.Create(each, nil, 0, zk.WorldACL(zk.PermAll))
		if !errors.Is(err, zk.ErrNodeExists) {
			require.NoError(t, err)
		}
	}
}

func removeAll(conn *zk.Conn, p string) error {
	children, _, err := conn.Children(p)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := removeAll(conn, path.Join(p, child)); err != nil {
			return err
		}
	}
	return conn.Delete(p, -1)
}

// plant creates the entry e.
func plant(t testing.TB, conn *zk.Conn, root string, e worker.Entry) {
	t.Helper()
	p, err := newPaths(root, "")
	require.NoError(t, err)
	host, port, _ := strings.Cut(e.Address, ":")
	data := encode(entryData{
		IP: host, Port: port, Timestamp: e.Timestamp, Ceiling: e.Ceiling, Owner: e.Owner, State: e.State, Instance: e.Instance, Limit: e.Limit,
	})
	if e.State == StateJava {
		data = fmt.Appendf(nil, `{"ip":%q,"port":%q,"timestamp":%d}`, host, port, e.Timestamp)
	}
	put(t, conn, p.foreverOf(nameOf(e.Node, e.WorkerID)), data)
}

// plantLive makes peer live for as long as conn is open.
func plantLive(t testing.TB, conn *zk.Conn, root string, peer worker.Peer) {
	t.Helper()
	p, err := newPaths(root, "")
	require.NoError(t, err)
	ensurePath(t, conn, p.temporary)
	if err := conn.Delete(p.temporaryOf(peer.Node), -1); !errors.Is(err, zk.ErrNoNode) {
		require.NoError(t, err)
	}
	data := encode(temporaryData{Owner: peer.Owner, Instance: peer.Instance, Address: peer.Address, Node: peer.Node, SessionMS: 1000})
	_, err = conn.Create(p.temporaryOf(peer.Node), data, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

// put creates p, and what is above it.
func put(t testing.TB, conn *zk.Conn, p string, data []byte) {
	t.Helper()
	ensurePath(t, conn, path.Dir(p))
	_, err := conn.Create(p, data, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

// Java Leafs and leafds on one tree, each with worker IDs of their own: whatever a daemon does, and
// whatever it is called, no entry of a Java Leaf's is taken or written.
func TestJavaTree(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	root := server.NewRoot(t)
	forever := root + "/snowflake/com.example.leaf/forever"
	payload := payloads(t, "good-java.json")["good-java"]
	ensurePath(t, conn, forever)
	_, err := conn.Set(forever, []byte("10.0.0.9"), -1) // what Curator leaves there
	require.NoError(t, err)
	java := map[string]int64{} // zxid of its last write, by path
	startJava := func(address string) {
		t.Helper()
		p, err := conn.Create(forever+"/"+address+"-", payload, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		_, stat, err := conn.Get(p)
		require.NoError(t, err)
		java[p] = stat.Mzxid
	}
	untouched := func(after string) {
		t.Helper()
		for p, mzxid := range java {
			data, stat, err := conn.Get(p)
			require.NoError(t, err, after)
			require.Equal(t, string(payload), string(data), after)
			require.Equal(t, mzxid, stat.Mzxid, after)
		}
	}
	for _, address := range []string{"10.0.0.4:8080", "10.0.0.5:8080", "10.0.0.6:8080"} {
		startJava(address)
	}
	cfg := daemonConfig(server, root+"/leaf", "10.0.0.5:8080") // as a Java Leaf is called
	cfg.ForeverPath = forever
	cfg.Layout, err = snowflake.ParseLayout("41+3+19", snowflake.DefaultEpoch)
	require.NoError(t, err)
	require.Equal(t, InitMade, initCluster(t, cfg))
	r := openRegistry(t, cfg)
	self := fresh(r)
	found, err := r.Look(bounded(t, patience), self)
	require.NoError(t, err)
	require.False(t, found.Known, "the entry of that name is a Java Leaf's")
	rec, err := r.Claim(bounded(t, patience), self, worker.DefaultLease)
	require.NoError(t, err)
	require.Equal(t, int64(3), rec.WorkerID)
	untouched("a first start")
	rec = report(t, r, rec)
	untouched("a report")
	own := r.held.path
	raw, _, err := conn.Get(own)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(raw), fmt.Sprintf(`{"ip":"10.0.0.5","port":"8080","timestamp":%d,`, rec.Timestamp)), "%s", raw)

	require.NoError(t, conn.Delete(own, -1))
	rec = report(t, r, rec)
	untouched("a report that puts back")
	require.NoError(t, r.Close())
	again := openRegistry(t, cfg)
	rec = claim1(t, again, nextLife(rec))
	require.Equal(t, int64(3), rec.WorkerID)
	untouched("a start")
	require.NoError(t, conn.Delete(own, -1))
	require.NoError(t, again.Close())
	again = openRegistry(t, cfg)
	rec = claim1(t, again, nextLife(rec))
	require.Equal(t, int64(3), rec.WorkerID)
	untouched("a start that puts back")

	// A Java Leaf's that comes later has another worker ID, and holds it.
	startJava("10.0.0.7:8080")
	require.NotContains(t, java, own)
	for p := range java {
		name, ok := parseName(path.Base(p))
		require.True(t, ok)
		for _, force := range []bool{false, true} {
			_, err = directory(t, cfg).Release(bounded(t, patience), name.workerID, force)
			require.ErrorIs(t, err, ErrJava)
			require.ErrorContains(t, err, p)
		}
	}
	all := list1(t, cfg)
	require.Len(t, all, 5)
	require.Equal(t, worker.Entry{WorkerID: 0, Node: "10.0.0.4:8080", Address: "10.0.0.5:8080", State: StateJava, Timestamp: 1700000000000}, all[0])
	untouched("a release")

	// One in the place of ours, by hand, or where ZooKeeper was set back: it has the worker ID.
	data, stat, err := conn.Get(own)
	require.NoError(t, err)
	stat, err = conn.Set(own, payload, stat.Version)
	require.NoError(t, err)
	java[own] = stat.Mzxid
	_, err = again.Report(bounded(t, patience), next(rec), true)
	require.ErrorIs(t, err, worker.ErrFenced)
	untouched("a report of a daemon whose entry it was")
	require.NoError(t, again.Close())
	again = openRegistry(t, cfg)
	_, err = again.Claim(bounded(t, patience), looked(t, again, nextLife(rec)), worker.DefaultLease)
	require.ErrorIs(t, err, worker.ErrTaken)
	untouched("a start of a daemon whose entry it was")
	_, err = conn.Set(own, data, stat.Version)
	require.NoError(t, err)
	delete(java, own)

	openCluster(t, cfg)
	for range 3 { // all that are left
		_, rec = claimed(t, cfg)
		for p := range java {
			require.NotContains(t, p, fmt.Sprintf("-%010d", rec.WorkerID))
		}
	}
	late := openRegistry(t, cfg)
	_, err = late.Claim(bounded(t, patience), looked(t, late, fresh(late)), worker.DefaultLease)
	require.ErrorIs(t, err, worker.ErrExhausted)
	untouched("a start that finds none")
	raw, _, err = conn.Get(forever)
	require.NoError(t, err)
	require.Equal(t, "10.0.0.9", string(raw), "not ours to change")

	// The root goes and the entries stay, being elsewhere.
	require.NoError(t, removeAll(conn, root+"/leaf"))
	rec = nextLife(rec)
	found, err = late.Look(bounded(t, patience), rec)
	require.NoError(t, err)
	require.True(t, found.Known && found.Lost)
}

func cfg2(cfg Config, node string) Config {
	cfg.Node = node
	return cfg
}

// With the entries elsewhere, a root that is lost is made again by the next report.
func TestRootLostAlone(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	base := server.NewRoot(t)
	cfg := daemonConfig(server, base+"/leaf", "a")
	cfg.ForeverPath = base + "/forever"
	initCluster(t, cfg)
	r, rec := claimed(t, cfg)
	cluster := rec.Cluster
	require.NoError(t, removeAll(conn, base+"/leaf"))
	rec = report(t, r, rec)
	require.Equal(t, cluster, rec.Cluster)
	require.Equal(t, int64(1), rec.Losses)
	require.Equal(t, rec.Ceiling, list1(t, cfg)[0].Ceiling)
	require.True(t, list1(t, cfg)[0].Live)
	rec = report(t, r, rec)

	// Another layout's root in its place ends it.
	other := r.newRoot(cfg.Layout, cluster)
	other.Epoch = 1
	_, err := conn.Set(base+"/leaf", encode(other), -1)
	require.NoError(t, err)
	_, err = r.Report(bounded(t, patience), next(rec), true)
	require.ErrorIs(t, err, worker.ErrFenced)
	require.ErrorIs(t, err, worker.ErrForeign)
	_, err = conn.Set(base+"/leaf", []byte("garbage"), -1)
	require.NoError(t, err)
	_, err = r.Report(bounded(t, patience), next(rec), true)
	require.ErrorIs(t, err, worker.ErrFenced)
	require.ErrorIs(t, err, worker.ErrDamaged)
	_, err = r.Look(bounded(t, patience), rec)
	require.ErrorIs(t, err, worker.ErrDamaged)
	require.ErrorContains(t, err, base+"/leaf")
}

// Somebody tidied up.
func TestParentOfTheLiveRemoved(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	r, rec := claimed(t, daemonConfig(server, madeRoot(t, server), "a"))
	require.NoError(t, removeAll(server.Conn(t), r.temporary))
	report(t, r, rec)
	require.True(t, list1(t, r.cfg)[0].Live)
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
	_, err := r.Look(bounded(t, patience), fresh(r))
	require.ErrorIs(t, err, worker.ErrNoCluster)
	require.Equal(t, InitMade, initCluster(t, cfg))
	rec := claim1(t, r, fresh(r))
	_, second := claimed(t, daemonConfig(server, root, "b"))
	require.Equal(t, rec.Cluster, second.Cluster)
	require.NotEqual(t, inner.Cluster, rec.Cluster)
}

// zkreg.R4: what can't be made out ends a start, and stands in nobody else's way.
func TestDamagedTree(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	for name, data := range payloads(t, "damaged-*.json") {
		t.Run(name, func(t *testing.T) {
			cfg := daemonConfig(server, madeRoot(t, server), "a")
			r := openRegistry(t, cfg)
			p := r.foreverOf(nameOf("a", 0))
			put(t, conn, p, data)
			_, err := conn.Create(r.forever+"/not-an-entry", nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			self := fresh(r)
			self.WorkerID = 0 // the record says that it is ours
			_, err = r.Look(bounded(t, patience), self)
			require.ErrorIs(t, err, worker.ErrDamaged)
			require.ErrorContains(t, err, p)
			require.ErrorContains(t, err, "delete it while its daemon runs and reaches ZooKeeper")

			_, rec := claimed(t, cfg2(cfg, "b"))
			require.NotEqual(t, int64(0), rec.WorkerID)
			all := list1(t, cfg)
			require.Len(t, all, 2)
			require.Equal(t, worker.Entry{WorkerID: 0, Node: "a", State: StateDamaged}, all[0])
			_, err = directory(t, cfg).Release(bounded(t, patience), 0, true)
			require.ErrorIs(t, err, worker.ErrDamaged)

			// Whoever had its worker ID before ZooKeeper lost everything doesn't get it.
			lost := openRegistry(t, cfg2(cfg, "c"))
			self = fresh(lost)
			self.WorkerID, self.Cluster, self.Confirmed, self.Losses = 0, rec.Cluster, true, 1
			self.Limit = rec.Limit
			found, err := lost.Look(bounded(t, patience), self)
			require.NoError(t, err)
			require.True(t, found.Lost)
			_, err = lost.Claim(bounded(t, patience), self, worker.DefaultLease)
			require.ErrorIs(t, err, worker.ErrTaken)
		})
	}
}

func TestDamagedLive(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	cfg := daemonConfig(server, madeRoot(t, server), "a")
	cfg.SessionTimeout = 3 * time.Second
	r := openRegistry(t, cfg)
	put(t, conn, r.temporaryOf("a"), nil)
	put(t, conn, r.temporaryOf("b"), []byte("{"))
	self := fresh(r)
	found, err := r.Look(bounded(t, patience), self)
	require.NoError(t, err)
	require.Empty(t, found.Peers, "nobody to ask")
	require.Empty(t, found.LiveOwner, "it is not said to be ours")
	rec, err := r.Claim(bounded(t, patience), self, worker.DefaultLease)
	require.NoError(t, err)
	report(t, r, rec)
	require.Len(t, list1(t, cfg), 1)
	require.True(t, list1(t, cfg)[0].Live)
}
