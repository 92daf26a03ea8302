package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/test/clitest"
)

// releaseTest has entries with limits that have passed, and others that are their holders' yet.
// All were written just now.
func releaseTest(t *testing.T) *registryTest {
	t.Helper()
	r := newRegistryTest(t).tree()
	r.entry(4, "old", r.piece("10.0.0.4:8080", 25*time.Hour, -time.Minute))
	r.entry(5, "other", r.piece("10.0.0.5:8080", 25*time.Hour, -time.Minute))
	r.entry(6, "resting", r.piece("10.0.0.6:8080", 10*time.Hour, 14*time.Hour))
	r.entry(7, "10.0.0.7:8080", r.reported("10.0.0.7:8080", time.Second))
	r.live("10.0.0.7:8080")
	r.create(r.root+"/leaf_forever/"+entryName(8), []byte(`{"ip":`), 0)
	r.javaEntry(9, "10.0.0.9:8080", 40*24*time.Hour)
	return r
}

func (r *registryTest) stateOf(id int) string {
	r.t.Helper()
	list := clitest.FromJSON[inspect.List](r.t, r.run("worker", "list", "-o", "json").OK(r.t))
	for _, w := range list.Workers {
		if w.ID == int64(id) {
			return w.State
		}
	}
	r.t.Fatalf("no worker %d", id)
	return ""
}

func TestWorkerRelease(t *testing.T) {
	t.Parallel()
	r := releaseTest(t)
	out := r.run("worker", "release", "4").OK(t)
	require.Contains(t, out, `Released worker 4 of node "old", last reported 20`)
	require.Regexp(t, `A new daemon takes it, and issues IDs under it, only from 20\S+Z on\.`, out)
	require.Equal(t, views.WorkerReleased, r.stateOf(4))
	require.Contains(t, r.run("worker", "release", "4").OK(t), "Worker 4 is released already: a new daemon takes it from 20")
	require.Contains(t, r.run("worker", "release", "4", "--force", "--yes").OK(t), "Worker 4 is released already")

	limit := r.shown("5").Limit
	done := clitest.FromJSON[cli.ReleasedJSON](t, r.run("worker", "release", "5", "-o", "json").OK(t))
	require.True(t, done.Changed)
	require.Equal(t, views.WorkerReleased, done.State)
	require.Equal(t, "other", done.Node)
	require.Equal(t, limit, done.Limit, "as it stood")
	require.Equal(t, limit, *done.FreeFrom)
	again := clitest.FromJSON[cli.ReleasedJSON](t, r.run("worker", "release", "5", "-o", "json").OK(t))
	require.False(t, again.Changed)
	again.Age, done.Age = nil, nil
	require.Equal(t, done.Worker, again.Worker)
}

// shown is what `worker show` has of an entry.
func (r *registryTest) shown(name string) views.WorkerInfo {
	r.t.Helper()
	return clitest.FromJSON[views.WorkerInfo](r.t, r.run("worker", "show", name, "-o", "json").OK(r.t))
}

func TestWorkerReleaseIsRefused(t *testing.T) {
	t.Parallel()
	r := releaseTest(t)
	for _, tc := range []struct {
		id   string
		says []string
	}{
		{"6", []string{"worker 6 is node resting's up to 20", "whether its daemon runs or not", "--force"}},
		{"7", []string{"worker 7 is live, as node 10.0.0.7:8080 at 10.0.0.7:8080", "stop its daemon first", "--force"}},
		{"8", []string{"damaged", entryName(8), "never delete it"}},
		{"9", []string{"worker 9 is a Java Leaf's, 10.0.0.9:8080", "with --force", "leafd worker release --help says what --force risks"}},
		{"10", []string{"worker ID 10 has no entry"}},
	} {
		r.run("worker", "release", tc.id).Failed(t, cli.ExitFailure, tc.says...)
	}
	require.Equal(t, views.WorkerNotLive, r.stateOf(6))
	require.Equal(t, views.WorkerLive, r.stateOf(7))

	// Whether the time has passed is ZooKeeper's clock's to say, not this machine's.
	r.step(30 * 24 * time.Hour)
	r.run("worker", "release", "6").Failed(t, cli.ExitFailure, "worker 6", "--force")
	r.run("worker", "release", "9").Failed(t, cli.ExitFailure, "worker 9")
	require.Equal(t, views.WorkerNotLive, r.stateOf(6), "as this machine sees it")
	require.Equal(t, views.WorkerForeign, r.stateOf(9))
}

// A machine with a clock that is behind releases what has come back by ZooKeeper's clock, and by
// force no less of a limit than ZooKeeper's clock asks for.
func TestWorkerReleaseGoesByZooKeepersClock(t *testing.T) {
	t.Parallel()
	r := releaseTest(t)
	right := r.now()
	r.step(-30 * 24 * time.Hour)
	limit := r.shown("4").Limit
	require.Contains(t, r.run("worker", "release", "4").OK(t), "Released worker 4")
	require.Equal(t, limit, r.shown("4").Limit)
	require.Contains(t, r.run("worker", "release", "6", "--force", "--yes").OK(t), "Released worker 6")
	require.Greater(t, r.shown("6").Limit, right.Add(10*time.Second))
}

func TestWorkerReleaseByForce(t *testing.T) {
	t.Parallel()
	r := releaseTest(t)
	before := r.now()
	require.Contains(t, r.run("worker", "release", "6", "--force", "--yes").OK(t), "Released worker 6")
	after := r.now()
	require.Equal(t, views.WorkerReleased, r.stateOf(6))
	// A daemon that was right about the time can't have issued later.
	limit := r.shown("6").Limit
	require.Greater(t, limit, before.Add(10*time.Second))
	require.Less(t, limit, after.Add(17*time.Second))

	out := r.run("worker", "release", "7", "--force", "--yes")
	require.Equal(t, cli.ExitOK, out.Code, out.Stderr)
	require.Contains(t, out.Stdout, "Released worker 7")
	require.Contains(t, out.Stderr, "warning: worker 7 was live at 10.0.0.7:8080")
	require.Equal(t, 1, strings.Count(out.Said(), "\n"))
	require.Equal(t, views.WorkerReleased, r.stateOf(7))
	r.run("worker", "release", "8", "--force", "--yes").Failed(t, cli.ExitFailure, "damaged", "znode "+r.root+"/leaf_forever/"+entryName(8))
}

// A Java Leaf that is gone for good has its worker ID freed: one of leafd's entries stands in the
// place of its own, above all that it can have issued by its last report, and by ZooKeeper's clock.
func TestWorkerReleaseOfAJavaLeaf(t *testing.T) {
	t.Parallel()
	r := releaseTest(t)
	o := newOnlooker(t, r.server, r.root)
	before := r.now()
	r.javaEntry(11, "10.0.0.11:8080", -time.Hour) // its clock was ahead
	done := clitest.FromJSON[cli.ReleasedJSON](t, r.run("worker", "release", "9", "--force", "--yes", "-o", "json").OK(t))
	after := r.now()
	require.True(t, done.Changed)
	require.Equal(t, views.WorkerReleased, done.State)
	require.Equal(t, "10.0.0.9:8080", done.Node)
	require.GreaterOrEqual(t, done.Limit, before.Add(9*time.Second), "ZooKeeper's clock, and twice the threshold")
	require.LessOrEqual(t, done.Limit, after.Add(11*time.Second))
	out := r.run("worker", "release", "11", "--force", "--yes").OK(t)
	require.Contains(t, out, "Released worker 11 of the Java Leaf 10.0.0.11:8080, last reported "+before.Add(time.Hour).String()[:13])
	require.Contains(t, out, "its entry is deleted, and one of leafd's stands in its place")
	require.GreaterOrEqual(t, r.shown("11").Limit, before.Add(time.Hour+10*time.Second), "its own clock")
	for _, workerID := range []int64{9, 11} {
		require.NotContains(t, o.entries(), fmt.Sprintf("10.0.0.%d:8080-%010[1]d", workerID))
		require.Equal(t, "released", o.must(o.path(workerID)).payload(t).State)
		require.Contains(t, o.names(r.root+"/leaf_released"), fmt.Sprintf("%010d", workerID))
	}
	require.Contains(t, r.run("worker", "release", "9", "--force", "--yes").OK(t), "Worker 9 is released already")

	// Two entries of one worker ID were made by hand: nothing says which holder has it.
	r.javaEntry(4, "10.0.0.4:8080", time.Hour)
	was := o.everything()
	r.run("worker", "release", "4", "--force", "--yes").Failed(t, cli.ExitFailure, "worker 4 has two entries", "10.0.0.4:8080-0000000004", entryName(4), "Delete that of the daemon that is gone for good")
	require.Equal(t, was, o.everything())
}
