package main

import (
	"maps"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

// The entry of a daemon that runs is written or deleted by another client: the daemon stops issuing
// with its next report, says so, leaves the live set, and doesn't write the entry again.
// Then the same process begins a new life, with the worker ID where it puts its entry back, and
// with another one where it is lost. Segments are served all the while.
func TestEntryTouchedByOthersFences(t *testing.T) {
	t.Parallel()
	type victim struct {
		m        *machine
		o        *onlooker
		l        *child
		ld       *load
		segments *load
		path     string
		owner    string   // of the life that was displaced
		did      seenNode // what stands there then
	}
	change := func(f func(z *znode)) func(*onlooker, string) {
		return func(o *onlooker, path string) {
			o.change(path, func(was seenNode) string {
				payload := was.payload(t)
				f(&payload)
				return jsonText(t, payload)
			})
		}
	}
	setsAside := func(v *victim) {
		require.True(t, v.l.hasLogged(`"alarm":"worker_id_lost"`, "one of the two directories is a copy"))
		require.Equal(t, v.did, v.o.must(v.path))
	}
	isLost := func(v *victim) {
		require.True(t, v.l.hasLogged(`"alarm":"worker_id_lost"`))
		require.Equal(t, v.did, v.o.must(v.path))
	}
	cases := []struct {
		name     string
		do       func(o *onlooker, path string)
		workerID int64           // of the new life
		after    func(v *victim) // what else is there to see; nil: nothing
	}{
		{name: "another owner", workerID: 1, do: change(func(z *znode) { z.Owner = "a stranger" }), after: setsAside},
		{
			name: "another instance, after ours", workerID: 1,
			do: change(func(z *znode) {
				z.Instance, z.Owner, z.Floor, z.Limit = "another", "a stranger", z.Limit, z.Limit.Add(time.Hour)
			}),
			after: isLost,
		},
		{
			name: "released by an operator", workerID: 1,
			do:    change(func(z *znode) { z.State, z.Limit = "released", z.Ceiling.Add(2*time.Second) }),
			after: isLost,
		},
	}
	victims := make([]*victim, len(cases))
	for i := range cases {
		c := onShared(t)
		v := &victim{m: c.machine(), o: c.watch()}
		v.l = v.m.start(append(steady(), sharedTable(t)...)...)
		victims[i] = v
	}
	for i, tc := range cases {
		v := victims[i]
		v.l.awaitStatus("/readyz", http.StatusOK)
		v.owner = v.l.info().Owner
		v.path = v.o.path(0)
		v.ld, v.segments = newLoad(v.l, "/api/snowflake/get/a?n=20"), newLoad(v.l, "/api/segment/get/a")
		v.ld.flows(t, 200)
		v.l.signal(syscall.SIGSTOP) // its next life may write the entry a second later
		tc.do(v.o, v.path)
		v.did = v.o.must(v.path)
		v.l.signal(syscall.SIGCONT)
		v.l.awaitLog(lineFenced)
		require.Eventually(t, func() bool { return len(v.o.live()) == 0 }, eventually, 10*time.Millisecond, tc.name)
	}
	for i, tc := range cases {
		v := victims[i]
		v.l.awaitStatus("/readyz", http.StatusOK)
		v.ld.flows(t, 200)
		info := v.l.info()
		require.Equal(t, tc.workerID, info.ID, tc.name)
		require.NotEqual(t, v.owner, info.Owner, tc.name)
		got := v.ld.stop()
		if tc.after != nil {
			tc.after(v)
		}
		requireDistinct(t, got)
		require.Equal(t, []string{"worker_fenced"}, slices.Collect(maps.Keys(v.ld.refused)), tc.name)
		require.Empty(t, v.ld.broken, tc.name)
		require.Zero(t, v.ld.failed, tc.name)
		requireDistinct(t, v.segments.unharmed(t))
		require.Equal(t, cli.ExitOK, v.l.stop(), tc.name)
	}
}
