package main

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

// Somebody else writes or deletes the entry of a daemon that runs: it stops issuing
// with its next report, says so, leaves the live set, and doesn't write the entry again.
func TestEntryTouchedByOthersFences(t *testing.T) {
	t.Parallel()
	type victim struct {
		m    *machine
		o    *onlooker
		l    *child
		ld   *load
		path string
		did  seenNode // what stands there then
		got  []int64
	}
	change := func(f func(z *znode)) func(*onlooker, string) {
		return func(o *onlooker, path string) {
			payload := o.must(path).payload(t)
			f(&payload)
			o.set(path, jsonText(t, payload))
		}
	}
	cases := []struct {
		name string
		do   func(o *onlooker, path string)
		// after is what becomes of the next start.
		after func(v *victim, l *child)
	}{
		{"another owner", change(func(z *znode) { z.Owner = "somebody else" }), func(v *victim, l *child) {
			// There is a copy of our directory.
			l.awaitStatus("/readyz", http.StatusOK)
			require.Equal(t, int64(1), l.info().ID)
			require.True(t, l.hasLogged(`"alarm":"record_set_aside"`, "one of the two directories is a copy"))
			require.Equal(t, v.did, v.o.must(v.path))
			v.got = append(v.got, l.batch("/api/snowflake/get/a?n=1000")...)
			require.Equal(t, cli.ExitOK, l.stop())
		}},
		{"a higher ceiling under our name", change(func(z *znode) { z.Ceiling = z.Ceiling.Add(2 * time.Second) }), func(v *victim, l *child) {
			l.awaitStatus("/readyz", http.StatusOK)
			got := l.batch("/api/snowflake/get/a?n=1000")
			require.GreaterOrEqual(t, timeOf(t, slices.Min(got)), v.did.payload(t).Ceiling)
			v.got = append(v.got, got...)
			require.Equal(t, cli.ExitOK, l.stop())
		}},
		{"a Java Leaf's three fields", change(func(z *znode) { *z = znode{IP: z.IP, Port: z.Port, Timestamp: z.Timestamp} }), func(v *victim, l *child) {
			l.awaitStatus("/readyz", http.StatusOK)
			got := l.batch("/api/snowflake/get/a?n=1000")
			require.GreaterOrEqual(t, timeOf(t, slices.Min(got)), v.did.payload(t).Timestamp.Add(6*time.Second), "what a Java Leaf may have issued past its report")
			v.got = append(v.got, got...)
			require.Equal(t, cli.ExitOK, l.stop())
		}},
		{"released", change(func(z *znode) { z.State, z.Limit = "released", z.Ceiling.Add(2*time.Second) }), func(v *victim, l *child) {
			l.awaitStatus("/readyz", http.StatusOK)
			require.Zero(t, l.info().ID, "nobody has taken it")
			got := l.batch("/api/snowflake/get/a?n=1000")
			require.GreaterOrEqual(t, timeOf(t, slices.Min(got)), v.did.payload(t).Limit)
			v.got = append(v.got, got...)
			v.got = append(v.got, l.batch("/api/snowflake/get/a?n=1000")...)
			require.Equal(t, cli.ExitOK, l.stop())
		}},
		{"garbage", func(o *onlooker, path string) { o.set(path, "\x00garbage") }, func(v *victim, l *child) {
			l.exits(cli.ExitFailure)
			require.Contains(t, l.Log(), v.path)
			require.Equal(t, v.did, v.o.must(v.path), "what can't be read is never written over")
		}},
		{"deleted", func(o *onlooker, path string) { o.remove(path) }, func(v *victim, l *child) {
			l.awaitStatus("/readyz", http.StatusOK)
			require.Equal(t, int64(1), l.info().ID, "its worker ID may be another's by now")
			l.awaitLog(`"alarm":"worker_id_lost"`)
			v.got = append(v.got, l.batch("/api/snowflake/get/a?n=1000")...)
			require.Equal(t, cli.ExitOK, l.stop())
		}},
	}
	victims := make([]*victim, len(cases))
	for i := range cases {
		c := onShared(t)
		v := &victim{m: c.machine(), o: c.watch()}
		v.l = v.m.start(frequent()...)
		victims[i] = v
	}
	for i, tc := range cases {
		v := victims[i]
		v.l.awaitStatus("/readyz", http.StatusOK)
		v.path = fmt.Sprintf("%s/%s-%010d", v.o.forever, v.m.addr, 0)
		v.ld = newLoad(v.l, "/api/snowflake/get/a?n=20")
		v.ld.flows(t, 200)
		tc.do(v.o, v.path)
		v.did, _, _ = v.o.get(v.path)
		v.l.awaitLog(`"alarm":"worker_fenced"`)
		v.got = v.ld.stop()
		require.Empty(t, v.ld.broken, tc.name)
		require.Zero(t, v.ld.failed, tc.name)
	}
	for i, tc := range cases {
		v := victims[i]
		for _, path := range []string{"/api/snowflake/get/a", "/readyz"} {
			a := v.l.mustGet(path)
			require.Equal(t, http.StatusServiceUnavailable, a.status, tc.name)
			require.Equal(t, "worker_fenced", a.code(), tc.name)
		}
		require.Equal(t, "fenced", v.l.info().State, tc.name)
		require.Eventually(t, func() bool { return len(v.o.live()) == 0 }, 30*time.Second, 10*time.Millisecond, tc.name)
		require.Equal(t, cli.ExitHeld, v.l.stop(), tc.name)
		now, found, err := v.o.get(v.path)
		require.NoError(t, err)
		require.Equal(t, v.did, now, tc.name)
		require.Equal(t, tc.name != "deleted", found)
	}
	for _, v := range victims {
		v.l = v.m.start(frequent()...)
	}
	for i, tc := range cases {
		tc.after(victims[i], victims[i].l)
		requireDistinct(t, victims[i].got)
	}
}
