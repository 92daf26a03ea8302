package zkreg

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
)

// hooked is a session whose transactions a test disturbs.
type hooked struct {
	Session

	multi func(ops []any, do func() ([]zk.MultiResponse, error)) ([]zk.MultiResponse, error)
}

func (h hooked) Multi(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
	return h.multi(ops, func() ([]zk.MultiResponse, error) { return h.Session.Multi(ctx, connection, ops...) })
}

// before has f called once, right before the n-th transaction of r.
func before(r *Registry, n int, f func()) {
	writes := 0
	r.session = hooked{r.session, func(_ []any, do func() ([]zk.MultiResponse, error)) ([]zk.MultiResponse, error) {
		if writes++; writes == n {
			f()
		}
		return do()
	}}
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
	self = looked(t, newcomer, fresh(newcomer))
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

// zkreg.R1: the newcomer, which has looked before, claims and is promoted between the survivor's
// last look and its entry: of all that it writes then the promotion alone writes the parent.
func TestPromotionBeforePutBack(t *testing.T) {
	t.Parallel()
	survivor, kept, newcomer, self := lostWorld(t)
	looked, promoted, reported := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	before(survivor, 2, func() { // the first one finds that the entry is gone
		close(looked)
		<-promoted
	})
	before(newcomer, 1, func() {
		go func() {
			_, err := survivor.Report(bounded(t, patience), next(kept), true)
			reported <- err
		}()
		<-looked
	})
	rec, err := newcomer.Claim(bounded(t, patience), self, worker.DefaultLease)
	close(promoted)
	require.NoError(t, err)
	require.ErrorIs(t, <-reported, worker.ErrFenced)
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
			looked(t, second, self)
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

// zkreg.R6: somebody writes the root, of something else, right before the loss is noted in it.
func TestRootWrittenBeforeALossIsNoted(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	r, rec := claimed(t, daemonConfig(server, madeRoot(t, server), "a"))
	require.NoError(t, conn.Delete(r.held.path, -1))
	var once sync.Once
	r.session = meddled{r.session, r.root, func() {
		once.Do(func() {
			data, _, err := conn.Get(r.root)
			require.NoError(t, err)
			_, err = conn.Set(r.root, data, -1)
			require.NoError(t, err)
		})
	}}
	require.Equal(t, int64(1), report(t, r, rec).Losses)
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
	theirs := setBack(t, r, 1, proxy, server.Conn(t), r.held.path, rec)
	_, err := r.Report(bounded(t, patience), next(rec), true)
	require.ErrorIs(t, err, worker.ErrFenced)
	left, _, err := server.Conn(t).Get(r.held.path)
	require.NoError(t, err)
	require.Equal(t, theirs, string(left))
}

// setBack does that right before the nth transaction of r, and returns what the entry of rec
// at p has then.
func setBack(t *testing.T, r *Registry, nth int, proxy *zookeepertest.Proxy, conn *zk.Conn, p string, rec worker.Record) string {
	t.Helper()
	theirs := r.entryOf(entryName{}, rec, worker.StateActive).data
	theirs.Instance, theirs.Owner = uuid.NewString(), uuid.NewString()
	before(r, nth, func() {
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
	self := looked(t, second, nextLife(rec))
	theirs := setBack(t, second, 1, proxy, server.Conn(t), r.held.path, rec)
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
	self := looked(t, second, nextLife(rec))
	before(second, 1, func() {
		_, err := r.Report(bounded(t, patience), next(rec), false)
		require.NoError(t, err)
	})
	_, err = second.Claim(bounded(t, patience), self, worker.DefaultLease)
	require.ErrorIs(t, err, worker.ErrHeld)
}

// Two of one directory start at once, a new one or one with a worker ID: one of them gets it,
// and the second one to write loses.
func TestTwoOfOneInstanceAtOnce(t *testing.T) {
	t.Parallel()
	for _, isNew := range []bool{true, false} {
		t.Run(fmt.Sprintf("new %t", isNew), func(t *testing.T) {
			server := zookeepertest.Shared(t)
			cfg := daemonConfig(server, madeRoot(t, server), "a")
			cfg.SessionTimeout = 3 * time.Second
			first, second := openRegistry(t, cfg), openRegistry(t, cfg)
			was := fresh(first)
			if !isNew {
				var r *Registry
				r, was = claimed(t, cfg)
				require.NoError(t, r.Close())
			}
			one, two := looked(t, first, nextLife(was)), looked(t, second, nextLife(was))
			before(second, 1, func() {
				var err error
				one, err = first.Claim(bounded(t, patience), one, worker.DefaultLease)
				require.NoError(t, err)
			})
			_, err := second.Claim(bounded(t, patience), two, worker.DefaultLease)
			require.ErrorIs(t, err, worker.ErrHeld)
			require.Len(t, list1(t, cfg), 1)
			report(t, first, one)
		})
	}
}

// A released entry whose owner comes back while another takes it over.
func TestOwnerReturnsDuringTakeover(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	root := madeRoot(t, server)
	plant(t, server.Conn(t), root, worker.Entry{WorkerID: 0, Node: "owner", Address: "10.0.0.5:8080", State: worker.StateReleased, Timestamp: 1, Ceiling: 2, Limit: 3, Owner: "old", Instance: "ours"})
	owner := openRegistry(t, daemonConfig(server, root, "owner"))
	taker := openRegistry(t, daemonConfig(server, root, "taker"))
	self := looked(t, taker, fresh(taker))
	var kept worker.Record
	back := fresh(owner)
	back.Instance = "ours"
	before(taker, 1, func() { kept = claim1(t, owner, back) })
	rec, err := taker.Claim(bounded(t, patience), self, worker.DefaultLease)
	require.NoError(t, err)
	require.Equal(t, int64(0), kept.WorkerID)
	require.NotEqual(t, int64(0), rec.WorkerID)
	report(t, owner, kept)
	report(t, taker, rec)
}

// zkreg.R2: it is in use again in the moment in which another takes it over.
func TestReportedDuringTakeover(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	root := madeRoot(t, server)
	free := worker.Entry{WorkerID: 0, Node: "owner", Address: "10.0.0.5:8080", State: worker.StateReleased, Timestamp: 1, Ceiling: 2, Limit: 3, Owner: "old", Instance: "theirs"}
	plant(t, conn, root, free)
	taker := openRegistry(t, daemonConfig(server, root, "taker"))
	self := looked(t, taker, fresh(taker))
	p := taker.foreverOf(nameOf("owner", 0))
	data, _, err := conn.Get(p)
	require.NoError(t, err)
	used, err := decodeEntry(p, data)
	require.NoError(t, err)
	used.State, used.Limit = worker.StateActive, self.Timestamp.Add(time.Hour)
	before(taker, 1, func() {
		_, err := conn.Set(p, encode(used), -1)
		require.NoError(t, err)
	})
	rec, err := taker.Claim(bounded(t, patience), self, worker.DefaultLease)
	require.NoError(t, err)
	require.NotEqual(t, int64(0), rec.WorkerID)
	left, _, err := conn.Get(p)
	require.NoError(t, err)
	require.Equal(t, string(encode(used)), string(left))
}

// zkreg.R2: ZooKeeper is set back in that moment, and counts to the version of what is taken over.
func TestSetBackBeforeATakeover(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	proxy := zookeepertest.NewProxy(t, server.Addr())
	conn := server.Conn(t)
	cfg := daemonConfig(server, madeRoot(t, server), "taker")
	plant(t, conn, cfg.Root, worker.Entry{WorkerID: 0, Node: "owner", Address: "10.0.0.5:8080", State: worker.StateReleased, Timestamp: 1, Ceiling: 2, Limit: 3, Owner: "old", Instance: "theirs"})
	cfg.Servers = []string{proxy.Addr()}
	taker := openRegistry(t, cfg)
	self := looked(t, taker, fresh(taker))
	rec := self
	rec.Limit = rec.Timestamp.Add(worker.DefaultLease)
	p := taker.foreverOf(nameOf("owner", 0))
	theirs := setBack(t, taker, 1, proxy, conn, p, rec)
	got, err := taker.Claim(bounded(t, patience), self, worker.DefaultLease)
	require.True(t, err != nil || got.WorkerID != 0, "%+v", got)
	left, _, err := conn.Get(p)
	require.NoError(t, err)
	require.Equal(t, theirs, string(left))
}

// zkreg.R2: what is not as it was last written, in content and mzxid, is written by nobody else.
func TestEntryIsNotAsItWasWritten(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	cfg := daemonConfig(server, madeRoot(t, server), "a")
	r, rec := claimed(t, cfg)
	rec = report(t, r, rec)
	fenced := func(r *Registry, rec worker.Record, now []byte) {
		t.Helper()
		_, err := conn.Set(r.held.path, now, -1)
		require.NoError(t, err)
		_, err = r.Report(bounded(t, patience), next(rec), true)
		require.ErrorIs(t, err, worker.ErrFenced)
		left, _, err := conn.Get(r.held.path)
		require.NoError(t, err)
		require.Equal(t, string(now), string(left))
	}
	fenced(r, rec, r.held.payload) // the same, written by somebody
	require.NoError(t, r.Close())

	require.NoError(t, conn.Delete(r.held.path, -1))
	back := openRegistry(t, cfg)
	kept, err := back.Claim(bounded(t, patience), looked(t, back, nextLife(rec)), worker.DefaultLease)
	require.NoError(t, err)
	require.Zero(t, back.held.stat.Mzxid, "it was made: ZooKeeper doesn't say as what")
	theirs := back.held.data
	theirs.Instance, theirs.Owner = uuid.NewString(), uuid.NewString()
	fenced(back, kept, encode(theirs))
}

// The original runs on, cut off, and ZooKeeper is set back while a newcomer of the same node name
// settles: the original has put its worker ID back, counted to the version of the newcomer's claim,
// when that is promoted. zkreg.R2: what is promoted goes over the connection that it was seen over.
func TestSetBackBeforeAPromotion(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	proxy := zookeepertest.NewProxy(t, server.Addr())
	cfg := daemonConfig(server, madeRoot(t, server), "a")
	cfg.Servers = []string{proxy.Addr()}
	r := openRegistry(t, cfg)
	self := looked(t, r, fresh(r))
	rec := self
	rec.WorkerID, rec.Limit = 0, rec.Timestamp.Add(worker.DefaultLease)
	p := r.foreverOf(nameOf("a", 0))
	theirs := setBack(t, r, 2, proxy, server.Conn(t), p, rec)
	got, err := r.Claim(bounded(t, patience), self, worker.DefaultLease)
	require.True(t, err != nil || got.WorkerID != 0, "%+v", got)
	left, _, err := server.Conn(t).Get(p)
	require.NoError(t, err)
	require.Equal(t, theirs, string(left))
}
