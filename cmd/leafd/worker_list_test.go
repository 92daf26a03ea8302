package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/worker"
)

// everyState makes an entry in each state; the live ones have real daemons, one
// of them with a clock 8 s ahead, one with another daemon at its address.
func everyState(t *testing.T) *registryTest {
	t.Helper()
	return newRegistryTest(t).tree().everyState()
}

func (r *registryTest) everyState() *registryTest {
	t := r.t
	t.Helper()
	ahead := newMachine(t)
	ahead.step(8 * time.Second)
	right := r.start("--node", "right").tells()
	wrong := ahead.start("--node", "wrong").tells()
	silent := freeAddress(t)

	r.entry(0, "right", r.reported(right.addr, time.Second))
	r.live(right.addr)
	r.entry(1, "wrong", r.reported(wrong.addr, time.Second))
	r.live(wrong.addr)
	r.entry(2, "silent", r.reported(silent, time.Second))
	r.live(silent)
	moved := r.reported(right.addr, time.Second)
	moved.Instance = "moved"
	r.entry(3, "moved", moved)
	r.liveAs(right.addr, "moved")
	r.entry(4, "resting", r.reported("10.0.0.4:8080", time.Hour+5*time.Minute))
	r.entry(5, "old", r.reported("10.0.0.5:8080", 30*time.Hour))
	free := r.reported("10.0.0.6:8080", 40*24*time.Hour)
	free.State = "released"
	r.entry(6, "free", free)
	begun := r.reported("10.0.0.7:8080", time.Minute)
	begun.State, begun.Limit = "claiming", begun.Floor
	r.entry(7, "begun", begun)
	r.create(r.root+"/leaf_forever/"+entryName(8), []byte(`{"ip":`), 0)
	r.javaEntry(9, "10.0.0.9:8080", 0)
	r.entry(10, "over", r.piece("10.0.0.10:8080", 2*time.Hour, -time.Hour))
	r.entry(11, "piece", r.piece("10.0.0.11:8080", 2*time.Hour, 100*time.Hour))
	r.create(r.root+"/leaf_forever/no-entry", nil, 0)
	return r
}

func TestWorkerListAndShow(t *testing.T) {
	t.Parallel()
	r := everyState(t)
	out := r.run("worker", "list", "-o", "json")
	list := clitest.FromJSON[inspect.List](t, out.OK(t))
	require.Equal(t, inspect.Summary{
		Entries: 12, Live: 4, NotLive: 4, Released: 1, Settling: 1, Foreign: 1, Damaged: 1, Capacity: 1024, Free: 1015,
	}, list.Summary)
	states := map[string]string{}
	for i, w := range list.Workers {
		require.EqualValues(t, i, w.ID, "by worker ID")
		states[w.Node] = w.State
		if w.State == views.WorkerDamaged {
			require.Nil(t, w.Age)
			continue
		}
		require.Equal(t, list.AsOf.Sub(w.Timestamp), time.Duration(*w.Age))
		require.GreaterOrEqual(t, *w.Age, reply.Milliseconds(0))
		if w.State != views.WorkerForeign {
			require.Equal(t, w.Timestamp.Add(6*time.Second), w.Ceiling)
		}
	}
	require.Equal(t, map[string]string{
		"right": views.WorkerLive, "wrong": views.WorkerLive, "silent": views.WorkerLive, "moved": views.WorkerLive,
		"resting": views.WorkerNotLive, "old": views.WorkerNotLive, "free": views.WorkerReleased, "begun": views.WorkerSettling, "": views.WorkerDamaged,
		"10.0.0.9:8080": views.WorkerForeign, "over": views.WorkerNotLive, "piece": views.WorkerNotLive,
	}, states)
	piece := list.Workers[11]
	require.Equal(t, "instance of 10.0.0.11:8080", piece.Instance)
	require.Equal(t, piece.Timestamp.Add(-time.Hour), piece.Floor)
	require.Equal(t, &piece.Limit, piece.FreeFrom)
	require.Less(t, *list.Workers[10].FreeFrom, r.now())
	require.Equal(t, list.Workers[6].Timestamp.Add(worker.DefaultLease), *list.Workers[6].FreeFrom)
	for _, id := range []int{0, 8, 9} { // live, damaged, without a limit
		require.Nil(t, list.Workers[id].FreeFrom, id)
	}
	require.Empty(t, list.Workers[9].Owner)

	// The clocks: of the live only.
	require.InDelta(t, 0, int64(*list.Workers[0].Offset), 1e9)
	require.NotNil(t, list.Workers[0].RTT)
	require.InDelta(t, 8e9, int64(*list.Workers[1].Offset), 1e9)
	require.Nil(t, list.Workers[2].Offset)
	require.NotEmpty(t, list.Workers[2].OffsetError)
	require.Nil(t, list.Workers[3].Offset, "another daemon's clock")
	require.Contains(t, list.Workers[3].OffsetError, `node "right" answers there`)
	for _, w := range list.Workers[4:] {
		require.Nil(t, w.Offset)
		require.Empty(t, w.OffsetError)
	}

	// For people.
	text := r.run("worker", "list").OK(t)
	for _, says := range []string{
		"WORKER_ID ", "TIMESTAMP", "AGE", "CEILING", "LIMIT", "FREE_FROM", "OFFSET", "OFFSET_ERROR\n",
		"\n12 entries, 4 live, 4 not live, 1 released, 1 settling, 1 foreign, 1 damaged, 1015 free of 1024; as of 20",
	} {
		require.Contains(t, text, says)
	}
	const at = ` +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`
	require.Regexp(t, `(?m)^1 +wrong +127\.0\.0\.1:\d+ +live`+at+` +\S+s`+at+at+` +- +(7|8)\.?\d*s +-$`, text)
	require.Regexp(t, `(?m)^2 +silent .* - +- +no answer: .*$`, text)
	require.Regexp(t, `(?m)^6 +free .* released`+at+` +40d00h`+at+at+at+` +- +-$`, text)
	require.Regexp(t, `(?m)^8 +- +- +damaged +- +- +- +- +- +- +-$`, text)
	require.Regexp(t, `(?m)^9 +10\.0\.0\.9:8080 +10\.0\.0\.9:8080 +foreign`+at+` +\S+ +- +- +- +- +-$`, text)
	wide := clitest.FromJSON[inspect.List](t, r.run("worker", "list", "--layout", "41+12+10", "-o", "json").OK(t))
	require.EqualValues(t, 4096, wide.Summary.Capacity)

	live := r.run("worker", "show", "1").OK(t)
	for name, is := range map[string]string{"worker_id": "1", "node": "wrong", "state": "live", "offset": `[78]\.?\d*s`, "rtt": ".+", "limit": `.* \(in 6d2.*`, "timestamp": `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \(.* ago\)`} {
		require.Regexp(t, "^"+is+"$", field(t, live, name), name)
	}
	require.NotContains(t, live, "free_from")
	for _, id := range []string{"8", "9"} { // damaged, and a Java Leaf's
		require.NotRegexp(t, "ceiling|owner|free_from", r.run("worker", "show", id).OK(t))
	}
	require.Contains(t, field(t, r.run("worker", "show", "6").OK(t), "free_from"), " ago)")
	require.EqualValues(t, 4, clitest.FromJSON[views.WorkerInfo](t, r.run("worker", "show", "4", "-o", "json").OK(t)).ID)
	r.run("worker", "show", "resting").Failed(t, cli.ExitUsage, `worker ID is "resting"`, "leafd worker list")
	r.run("worker", "show", "77").Failed(t, cli.ExitFailure, "worker ID 77 has no entry")
}

// TestWorkerCommandsOnTheJavaLeafsTree looks where an existing cluster has its entries.
func TestWorkerCommandsOnTheJavaLeafsTree(t *testing.T) {
	t.Parallel()
	r := newRegistryTest(t)
	r.create(r.root, nil, 0)
	r.create(r.root+"/forever", nil, 0)
	r.create(r.root+"/forever/10.0.0.5:2182-0000000003", fmt.Appendf(nil, `{"ip":"10.0.0.5","port":"2182","timestamp":%d}`, r.now()), 0)
	show := r.run("worker", "show", "3", "--zk-forever-path", r.root+"/forever").OK(t)
	require.Equal(t, "3", field(t, show, "worker_id"))
	require.Equal(t, "foreign", field(t, show, "state"))
	require.NotContains(t, show, "owner")
	require.NotContains(t, show, "free_from")
	require.Contains(t, r.run("worker", "list", "--zk-forever-path", r.root+"/forever").OK(t), "\n1 entry, 0 live, 1 foreign, none free: nothing is at the root; ")

	// Once the root has recorded where they are, no command need say so.
	r.run("cluster", "init", "--new", "--yes", "--zk-forever-path", r.root+"/forever").OK(t)
	require.Contains(t, r.run("worker", "list").OK(t), "\n1 entry, 0 live, 1 foreign, 1023 free of 1024; ")
	r.run("worker", "release", "3").Failed(t, cli.ExitFailure, "worker 3 is a Java Leaf's, 10.0.0.5:2182", "stopped for good", "with --force")
	require.Contains(t, r.run("worker", "release", "3", "--force", "--yes").OK(t), "Released worker 3 of the Java Leaf 10.0.0.5:2182")
	require.Contains(t, r.run("worker", "list").OK(t), "\n1 entry, 0 live, 1 released,")
}
