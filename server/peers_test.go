package server

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/worker"
)

func TestWorkerEndpoints(t *testing.T) {
	r := start(t, nil)
	const w = `{"worker_id":7,"node":"10.0.0.5:8080","owner":"0b5c","cluster":"c1","layout":"41+10+12","epoch":1288834974657,"state":"live","ceiling":1700000006000,"timestamp":1700000000000,"since":1699990000000,"started":"2023-11-14T22:13:20Z","version":"1.2.3"}`
	require.JSONEq(t, w, r.get("/api/worker").body)
	workers := func() string {
		t.Helper()
		body := r.get("/api/workers").body
		require.Regexp(t, `^\{"as_of":[0-9]{13},`, body)
		return `{` + body[len(`{"as_of":1700000000000,`):]
	}
	require.JSONEq(t, `{"workers":[`+w+`]}`, workers())

	b := r.newBackend()
	offset := reply.Milliseconds(-1500 * time.Microsecond)
	b.Workers = func(ctx context.Context) ([]views.WorkerInfo, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			return nil, errors.New("a registry that hangs must not hold a request for ever")
		}
		return []views.WorkerInfo{
			{ID: 1, Node: "java:8080", State: views.WorkerForeign, Ceiling: 5, Timestamp: 4},
			{ID: 2, Node: "b", Owner: "u", Address: "10.0.0.6:8080", State: views.WorkerLive, Offset: &offset},
		}, nil
	}
	r.SetBackend(b)
	body := workers()
	require.JSONEq(t, `{"workers":[
		{"worker_id":1,"node":"java:8080","state":"foreign","ceiling":5,"timestamp":4},
		{"worker_id":2,"node":"b","owner":"u","address":"10.0.0.6:8080","state":"live","offset_ms":-1.500,"ceiling":0,"timestamp":0}]}`, body)
	var list struct{ Workers []views.WorkerInfo }
	require.NoError(t, json.Unmarshal([]byte(body), &list), "programs of ours read what the server writes")
	require.Equal(t, offset, *list.Workers[1].Offset)
	require.Nil(t, list.Workers[0].Offset)

	b.Workers = func(context.Context) ([]views.WorkerInfo, error) { return nil, nil }
	r.forgetLists()
	require.JSONEq(t, `{"workers":[]}`, workers())
}

// The states of an entry, as each list, page and command shows them.
func TestInfoOf(t *testing.T) {
	const now = clock.Millis(1_800_000_000_000)
	ahead, past := now.Add(time.Hour), now.Add(-time.Hour)
	for _, tc := range []struct {
		name  string
		entry worker.Entry
		state string
		free  clock.Millis
		age   time.Duration
	}{
		{"live", worker.Entry{State: worker.StateActive, Live: true, Timestamp: now, Limit: ahead}, views.WorkerLive, 0, 0},
		{"live beyond its limit", worker.Entry{State: worker.StateActive, Live: true, Timestamp: past, Limit: past}, views.WorkerLive, 0, time.Hour},
		{"killed", worker.Entry{State: worker.StateActive, Timestamp: past, Limit: ahead}, views.WorkerNotLive, ahead, time.Hour},
		{"killed, its clock ahead", worker.Entry{State: worker.StateActive, Timestamp: ahead, Limit: ahead}, views.WorkerNotLive, ahead, -time.Hour},
		{"its limit has passed", worker.Entry{State: worker.StateActive, Timestamp: past, Limit: past}, views.WorkerNotLive, past, time.Hour},
		{"released while it lives", worker.Entry{State: worker.StateReleased, Live: true, Timestamp: past, Limit: ahead}, views.WorkerReleased, ahead, time.Hour},
		{"claimed", worker.Entry{State: worker.StateClaiming, Timestamp: past, Floor: now, Limit: now}, views.WorkerSettling, now, time.Hour},
		{"a Java Leaf's", worker.Entry{State: "foreign", Timestamp: past}, views.WorkerForeign, 0, time.Hour},
		{"damaged", worker.Entry{State: "damaged", Live: true}, views.WorkerDamaged, 0, 0},
		{"of a newer leafd", worker.Entry{State: "retired", Timestamp: past}, views.WorkerDamaged, 0, time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := views.InfoOf(tc.entry, now)
			require.Equal(t, tc.state, w.State)
			require.Equal(t, tc.free != 0, w.FreeFrom != nil)
			if w.FreeFrom != nil {
				require.Equal(t, tc.free, *w.FreeFrom)
			}
			require.Equal(t, tc.entry.Timestamp > 0, w.Age != nil)
			if w.Age != nil {
				require.Equal(t, tc.age, time.Duration(*w.Age))
			}
			require.Equal(t, w.FreeFrom != nil && tc.free <= now, w.Free(now))
		})
	}
}

// A peer may ask while we wait for a ceiling to pass, and a claimant asks us
// before it has written anything.
func TestClockFromTheFirstMoment(t *testing.T) {
	r := startEmpty(t, nil)
	require.Regexp(t, `^\{"timestamp":[0-9]{13}\}\n$`, r.get("/api/clock").body, "nothing is known")

	named := startEmpty(t, func(c *Config) { c.Node = `a"b` })
	named.SetOwner("0b5c")
	require.Regexp(t, `^\{"node":"a\\"b","owner":"0b5c","timestamp":[0-9]{13}\}\n$`, named.get("/api/clock").body)
	named.SetBackend(&views.Backend{}) // segments are served, and the worker ID is not certain
	require.Regexp(t, `^\{"node":"a\\"b","owner":"0b5c","timestamp":[0-9]{13}\}\n$`, named.get("/api/clock").body)
	named.SetBackend(&views.Backend{Worker: func() views.WorkerInfo { return views.WorkerInfo{ID: 3, Ceiling: 9} }})
	require.Regexp(t, `^\{"node":"a\\"b","owner":"0b5c","worker_id":3,"ceiling":9,"timestamp":[0-9]{13}\}\n$`, named.get("/api/clock").body)
	named.SetBackend(named.newBackend())
	require.Regexp(t, `^\{"node":"10.0.0.5:8080","owner":"0b5c","worker_id":7,"ceiling":1700000006000,"cluster":"c1","since":1699990000000,"timestamp":[0-9]{13}\}\n$`, named.get("/api/clock").body)
	named.Drain()
	require.Equal(t, 200, named.get("/api/clock").status)
}

// The time is read after all else that is told.
func TestClockIsReadLast(t *testing.T) {
	clk := clocktest.New(time.UnixMilli(1_700_000_000_000))
	r := startEmpty(t, func(c *Config) { c.Clock = clk })
	b := r.newBackend()
	worker := b.Worker
	b.Worker = func() views.WorkerInfo {
		clk.Advance(time.Second) // as long as looking may take
		return worker()
	}
	r.SetBackend(b)
	require.Contains(t, r.get("/api/clock").body, `"timestamp":1700000001000}`)
}
