package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
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

func (r *registryTest) stateOf(id string) string { r.t.Helper(); return r.shown(id).State }

// shown is what `worker show` has of an entry.
func (r *registryTest) shown(name string) views.WorkerInfo {
	r.t.Helper()
	return clitest.FromJSON[views.WorkerInfo](r.t, r.run("worker", "show", name, "-o", "json").OK(r.t))
}

func TestWorkerRelease(t *testing.T) {
	t.Parallel()
	r := releaseTest(t)
	r.step(-30 * 24 * time.Hour) // ZooKeeper's clock counts
	limit := r.shown("4").Limit
	out := r.run("worker", "release", "4").OK(t)
	require.Contains(t, out, `Released worker 4 of node "old", last reported 20`)
	require.Regexp(t, `A new daemon takes it, and issues IDs under it, only from 20\S+Z on\.`, out)
	require.Equal(t, limit, r.shown("4").Limit)
	require.Equal(t, views.WorkerReleased, r.stateOf("4"))
	require.Contains(t, r.run("worker", "release", "4", "--force", "--yes").OK(t), "Worker 4 is released already: a new daemon takes it from 20")
	done := clitest.FromJSON[cli.ReleasedJSON](t, r.run("worker", "release", "5", "-o", "json").OK(t))
	require.Equal(t, []any{true, views.WorkerReleased, "other", *done.FreeFrom}, []any{done.Changed, done.State, done.Node, done.Limit})
	require.False(t, clitest.FromJSON[cli.ReleasedJSON](t, r.run("worker", "release", "5", "-o", "json").OK(t)).Changed)
	r.step(60 * 24 * time.Hour)
	for id, says := range map[string][]string{
		"6":  {"worker 6 is node resting's up to 20", "whether its daemon runs or not", "--force"},
		"7":  {"worker 7 is live, as node 10.0.0.7:8080 at 10.0.0.7:8080", "stop its daemon first", "--force"},
		"8":  {"damaged", entryName(8), "never delete it"},
		"9":  {"worker 9 is a Java Leaf's, 10.0.0.9:8080", "with --force", "leafd worker release --help says what --force risks"},
		"10": {"worker ID 10 has no entry"},
	} {
		r.run("worker", "release", id).Failed(t, cli.ExitFailure, says...)
	}
}

// By force a worker ID is released whose limit has not passed, above all that a daemon can have issued whose clock is right.
func TestWorkerReleaseByForce(t *testing.T) {
	t.Parallel()
	r := releaseTest(t)
	before := r.now()
	require.Contains(t, r.run("worker", "release", "6", "--force", "--yes").OK(t), "Released worker 6")
	require.Equal(t, views.WorkerReleased, r.stateOf("6"))
	limit := r.shown("6").Limit
	require.Greater(t, limit, before.Add(10*time.Second))
	require.Less(t, limit, r.now().Add(17*time.Second))

	out := r.run("worker", "release", "7", "--force", "--yes")
	require.Equal(t, cli.ExitOK, out.Code, out.Stderr)
	require.Contains(t, out.Stderr, "warning: worker 7 was live at 10.0.0.7:8080")
	require.Equal(t, 1, strings.Count(out.Said(), "\n"))
	require.Equal(t, views.WorkerReleased, r.stateOf("7"))
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
	require.Equal(t, []any{true, views.WorkerReleased, "10.0.0.9:8080"}, []any{done.Changed, done.State, done.Node})
	require.GreaterOrEqual(t, done.Limit, before.Add(9*time.Second), "ZooKeeper's clock, and twice the threshold")
	out := r.run("worker", "release", "11", "--force", "--yes").OK(t)
	require.Contains(t, out, "Released worker 11 of the Java Leaf 10.0.0.11:8080, last reported "+before.Add(time.Hour).String()[:13])
	require.Contains(t, out, "its entry is deleted, and one of leafd's stands in its place")
	require.GreaterOrEqual(t, r.shown("11").Limit, before.Add(time.Hour+10*time.Second), "its own clock")
	require.NotContains(t, o.entries(), "10.0.0.11:8080-0000000011")
	require.Equal(t, "released", o.must(o.path(11)).payload(t).State)
	require.Contains(t, o.names(r.root+"/leaf_released"), "0000000011")
	require.Contains(t, r.run("worker", "release", "9", "--force", "--yes").OK(t), "Worker 9 is released already")

	// Two entries of one worker ID were made by hand: nothing says which holder has it.
	r.javaEntry(4, "10.0.0.4:8080", time.Hour)
	was := o.everything()
	r.run("worker", "release", "4", "--force", "--yes").Failed(t, cli.ExitFailure, "worker 4 has two entries", "10.0.0.4:8080-0000000004", entryName(4), "Delete that of the daemon that is gone for good")
	require.Equal(t, was, o.everything())
}
