package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// restorable is a cluster on a ZooKeeper of its own, of which a test takes backups and puts
// them back. What stands there is read over a new connection each time: one that has seen
// more than the backup has is refused after it was put back.
type restorable struct {
	*cluster
	s *zookeepertest.Server
}

// newRestorable makes one with a root older than a minute, so that claims settle.
func newRestorable(t *testing.T, args ...string) *restorable {
	t.Helper()
	return madeAt(t, -2*time.Minute, args...)
}

// madeAt makes one by a clock of ZooKeeper's that is off by d, and is right afterwards.
func madeAt(t *testing.T, d time.Duration, args ...string) *restorable {
	t.Helper()
	s := zookeepertest.StartSkewed(t, d)
	r := &restorable{(&cluster{t: t, servers: []string{s.Addr()}, root: "/leaf"}).init(args...), s}
	s.SetClock(t, 0)
	return r
}

// settling is a host where claims settle for as long as a daemon's do, and which waits for a
// worker ID for as long as a test does.
func (r *restorable) settling(args ...string) *machine {
	r.t.Helper()
	m := r.host(append(args, "--startup-timeout", "5m")...)
	m.settle = 0
	return m
}

// says runs a command of the operator's on the cluster.
func (r *restorable) says(verb string, args ...string) string {
	r.t.Helper()
	return r.onMachine(newMachine(r.t), append([]string{"cluster", verb, "--yes", "--clock-threshold", "10ms"}, args...)...).OK(r.t)
}

// status is what stands in the root, with any verdict on it.
func (r *restorable) status() cli.ClusterJSON {
	r.t.Helper()
	return clitest.FromJSON[cli.ClusterJSON](r.t, r.onMachine(newMachine(r.t), "cluster", "status", "-o", "json").Stdout)
}

// workerPath is the one path of a worker ID.
func (r *restorable) workerPath(workerID int64) string {
	return fmt.Sprintf("%s/leaf_forever/worker-%010d", r.root, workerID)
}

// standing is a worker ID's entry as it stands; false for none.
func (r *restorable) standing(workerID int64) (e zentry, stands bool) {
	r.t.Helper()
	data, _, _, stands := r.tree(r.s).get(r.workerPath(workerID))
	if stands {
		require.NoError(r.t, json.Unmarshal(data, &e), "%s", data)
	}
	return e, stands
}

// awaitBack waits until the daemon's entry is its own again, reported after since.
func (r *restorable) awaitBack(l *child, since clock.Millis) {
	r.t.Helper()
	me := l.info()
	look := r.tree(r.s)
	require.Eventually(r.t, func() bool {
		data, _, _, stands := look.get(r.workerPath(me.ID))
		var e zentry
		return stands && json.Unmarshal(data, &e) == nil && e.Owner == me.Owner && e.State == "active" && e.Time > since
	}, eventually, 5*tick, "entry of worker %d, of %s", me.ID, l.addr)
}

// awaitReady waits until the daemon is ready, which it may become only once a claim has settled,
// and once more where a busy machine lost its session meanwhile.
func (l *child) awaitReady() {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		a, err := l.get("/readyz")
		return err == nil && a.status == 200
	}, 3*eventually, 5*tick, "%s is ready", l.addr)
}

// tries asks a daemon that is to issue nothing for IDs, for d, and returns those that it gave.
func (l *child) tries(d time.Duration) []int64 {
	l.t.Helper()
	var got []int64
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(3 * time.Millisecond) {
		if a, err := l.get("/api/snowflake/get/a?n=100"); err == nil && a.status == 200 {
			list, err := ids(a.body)
			require.NoError(l.t, err)
			got = append(got, list...)
		}
	}
	return got
}

// soFar returns what the clients have got up to now.
func (tr *traffic) soFar() []int64 {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return slices.Concat(slices.Collect(maps.Values(tr.got))...)
}

// requireNothingEarly requires that early, what a daemon gave while it was to give nothing,
// has none of the IDs that the holders' clients have got, and is empty.
func (tr *traffic) requireNothingEarly(early []int64) {
	tr.t.Helper()
	held := map[int64]bool{}
	for _, id := range tr.soFar() {
		held[id] = true
	}
	equal := slices.DeleteFunc(slices.Clone(early), func(id int64) bool { return !held[id] })
	require.Empty(tr.t, equal[:min(len(equal), 3)], "%d IDs of two daemons are equal, of %d that one issued too early", len(equal), len(early))
	require.Empty(tr.t, early[:min(len(early), 3)], "%d IDs were issued too early", len(early))
}
