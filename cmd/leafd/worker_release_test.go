package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/clitest"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
)

// releaseTest has entries whose znodes were written a day and an hour ago, by the
// clock of the commands.
func releaseTest(t *testing.T) *registryTest {
	t.Helper()
	r := newRegistryTest(t).tree()
	r.step(25 * time.Hour)
	old := r.reported("10.0.0.4:8080", 25*time.Hour-time.Minute)
	r.entry(4, "old", old)
	r.entry(5, "other", old)
	r.entry(6, "resting", r.reported("10.0.0.6:8080", 10*time.Hour))
	r.entry(7, "10.0.0.7:8080", r.reported("10.0.0.7:8080", time.Second))
	r.live("10.0.0.7:8080", "10.0.0.7:8080")
	r.create(r.root+"/leaf_forever/broken-0000000008", []byte(`{"ip":`), 0)
	return r
}

func (r *registryTest) stateOf(id int) string {
	r.t.Helper()
	list := clitest.FromJSON[cli.WorkerListJSON](r.t, r.run("worker", "list", "--no-skew", "-o", "json").OK(r.t))
	for _, w := range list.Workers {
		if w.WorkerID == int64(id) {
			return w.State
		}
	}
	r.t.Fatalf("no worker %d", id)
	return ""
}

func TestWorkerRelease(t *testing.T) {
	t.Parallel()
	r := releaseTest(t)
	out := r.run("worker", "release", "old").OK(t)
	require.Contains(t, out, `Released worker 4 of node "old", last reported 20`)
	require.Contains(t, out, "The next new node takes it over and issues IDs only above that ceiling.")
	require.Equal(t, inspect.Released, r.stateOf(4))
	require.Equal(t, "Worker 4 is released already: the next new node takes it over.\n", r.run("worker", "release", "4").OK(t))
	require.Equal(t, "Worker 4 is released already: the next new node takes it over.\n", r.run("worker", "release", "4", "--force").OK(t))

	done := clitest.FromJSON[cli.ReleasedJSON](t, r.run("worker", "release", "5", "-o", "json").OK(t))
	require.True(t, done.Changed)
	require.Equal(t, inspect.Released, done.State)
	require.Equal(t, "other", done.Node)
	require.NotZero(t, done.Ceiling)
	again := clitest.FromJSON[cli.ReleasedJSON](t, r.run("worker", "release", "other", "-o", "json").OK(t))
	require.False(t, again.Changed)
	again.AgeMS, done.AgeMS = nil, nil
	require.Equal(t, done.WorkerJSON, again.WorkerJSON)
}

func TestWorkerReleaseIsRefused(t *testing.T) {
	t.Parallel()
	r := releaseTest(t)
	for _, tc := range []struct {
		id   string
		says []string
	}{
		{"6", []string{`worker 6 of node "resting" is not released: it reported 10h00m ago`, "It may be released from 20", "--force", "known to be dead"}},
		{"10.0.0.7:8080", []string{`worker 7 of node "10.0.0.7:8080" is not released: it is live at 10.0.0.7:8080. Stop that daemon`, "--force", "known to be dead"}},
		{"8", []string{"damaged", "broken-0000000008"}},
		{"9", []string{`no worker ID and no node is "9"; there are 5, of the worker IDs 4 to 8`}},
		{"restin", []string{"did you mean resting?"}},
	} {
		r.run("worker", "release", tc.id).Failed(t, cli.ExitFailure, tc.says...)
	}
	require.Equal(t, inspect.Active, r.stateOf(6))
	require.Equal(t, inspect.Live, r.stateOf(7))

	// Written just now, whatever time the writer's clock had: a daemon whose
	// clock was far behind may have written it.
	r.entry(9, "behind", r.reported("10.0.0.9:8080", 48*time.Hour))
	early := *r
	early.machine = newMachine(t)
	early.run("worker", "release", "9").Failed(t, cli.ExitFailure, "worker 9", "--force")
	require.Equal(t, inspect.Stale, r.stateOf(9))
}

func TestWorkerReleaseByForce(t *testing.T) {
	t.Parallel()
	r := releaseTest(t)
	require.Contains(t, r.run("worker", "release", "6", "--force").OK(t), "Released worker 6")
	require.Equal(t, inspect.Released, r.stateOf(6))

	out := r.run("worker", "release", "7", "--force")
	require.Equal(t, cli.ExitOK, out.Code, out.Stderr)
	require.Contains(t, out.Stdout, "Released worker 7")
	require.Contains(t, out.Stderr, "warning: worker 7 was live at 10.0.0.7:8080")
	require.Equal(t, 1, strings.Count(out.Stderr, "\n"))
	require.Equal(t, inspect.Released, r.stateOf(7))
	r.run("worker", "release", "8", "--force").Failed(t, cli.ExitFailure, "damaged")
}
