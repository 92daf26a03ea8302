package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	list := fromJSON[jsonWorkerList](r.t, r.run("worker", "list", "--no-skew", "-o", "json").ok(r.t))
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
	out := r.run("worker", "release", "old").ok(t)
	require.Contains(t, out, `Released worker 4 of node "old", last reported 20`)
	require.Contains(t, out, "The next new node takes it over and issues IDs only above that ceiling.")
	require.Equal(t, shownReleased, r.stateOf(4))
	require.Equal(t, "Worker 4 is released already: the next new node takes it over.\n", r.run("worker", "release", "4").ok(t))
	require.Equal(t, "Worker 4 is released already: the next new node takes it over.\n", r.run("worker", "release", "4", "--force").ok(t))

	done := fromJSON[jsonReleased](t, r.run("worker", "release", "5", "-o", "json").ok(t))
	require.True(t, done.Changed)
	require.Equal(t, shownReleased, done.State)
	require.Equal(t, "other", done.Node)
	require.NotZero(t, done.Ceiling)
	again := fromJSON[jsonReleased](t, r.run("worker", "release", "other", "-o", "json").ok(t))
	require.False(t, again.Changed)
	again.AgeMS, done.AgeMS = nil, nil
	require.Equal(t, done.jsonWorker, again.jsonWorker)
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
		r.run("worker", "release", tc.id).failed(t, exitFailure, tc.says...)
	}
	require.Equal(t, shownActive, r.stateOf(6))
	require.Equal(t, shownLive, r.stateOf(7))

	// Written just now, whatever time the writer's clock had: a daemon whose
	// clock was far behind may have written it.
	r.entry(9, "behind", r.reported("10.0.0.9:8080", 48*time.Hour))
	early := *r
	early.machine = newMachine(t)
	early.run("worker", "release", "9").failed(t, exitFailure, "worker 9", "--force")
	require.Equal(t, shownStale, r.stateOf(9))
}

func TestWorkerReleaseByForce(t *testing.T) {
	t.Parallel()
	r := releaseTest(t)
	require.Contains(t, r.run("worker", "release", "6", "--force").ok(t), "Released worker 6")
	require.Equal(t, shownReleased, r.stateOf(6))

	out := r.run("worker", "release", "7", "--force")
	require.Equal(t, exitOK, out.code, out.stderr)
	require.Contains(t, out.stdout, "Released worker 7")
	require.Contains(t, out.stderr, "warning: worker 7 was live at 10.0.0.7:8080")
	require.Equal(t, 1, strings.Count(out.stderr, "\n"))
	require.Equal(t, shownReleased, r.stateOf(7))
	r.run("worker", "release", "8", "--force").failed(t, exitFailure, "damaged")
}
