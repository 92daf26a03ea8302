package cachetest

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// Open returns a new, empty cache, and reopen, which ends the use of the cache
// and returns another one on the same record, as a restarted process sees it.
// What it opens it closes when the test ends.
type Open func(t *testing.T) (c worker.Cache, reopen func() worker.Cache)

// Example returns a record in which no field that is saved is zero, reported at the time
// ts.
func Example(ts clock.Millis) worker.Record {
	return worker.Record{
		Cluster:     "7f9c5a51-3c43-4a53-9b0e-0f2c6f3c2d11",
		Node:        "10.0.0.5:8080",
		WorkerID:    7,
		Layout:      "41+10+12",
		Epoch:       1288834974657,
		Timestamp:   ts,
		Ceiling:     ts + 6000,
		Owner:       "0b1d3a2e-7c86-4d6a-8f0e-5a8f6f0f9f21",
		Peers:       []string{"10.0.0.6:8080", "10.0.0.7:8080"},
		Root:        "/leaf",
		Forever:     "/leaf/leaf_forever",
		Servers:     []string{"10.0.0.1:2181", "10.0.0.2:2181"},
		BootID:      "01234567-89ab-cdef-0123-456789abcdef",
		Booted:      ts - 1_000_000,
		Registered:  ts - 3000,
		DirectoryID: "9f86d081884c7d65",
		Instance:    "6f1f2f4a-54c1-4d0c-8a52-6b0b5f4f7e11",
		Born:        ts - 9000,
		Floor:       ts - 9000,
		Limit:       ts + 604800000,
		AckedLimit:  ts + 604797000,
		Acked:       worker.Life{Owner: "6e0c1d57-2b7f-4f0e-9d4b-8d1f6f3a5c02", Number: 11},
		Current:     worker.Life{Owner: "0b1d3a2e-7c86-4d6a-8f0e-5a8f6f0f9f21", Number: 12},
		State:       worker.RecordActive,
		Losses:      2, LostAt: ts - 8000, LongestLease: 30 * worker.DefaultLease, LongestSession: 40 * time.Second, LongestLend: 10 * time.Minute,
	}
}

const start clock.Millis = 1700000000000

// Run tests that what open opens keeps the contract of worker.Cache.
func Run(t *testing.T, open Open) {
	t.Run("nothing saved", func(t *testing.T) {
		c, reopen := open(t)
		for range 2 {
			r, err := c.Load()
			require.ErrorIs(t, err, worker.ErrNoRecord)
			require.NotErrorIs(t, err, worker.ErrDamaged)
			require.Zero(t, r)
			c = reopen()
		}
	})
	t.Run("record comes back whole", func(t *testing.T) { runRoundTrips(t, open) })
	t.Run("last of many", func(t *testing.T) {
		c, reopen := open(t)
		for i := range clock.Millis(20) {
			require.NoError(t, c.Save(Example(start+i)))
			got, err := c.Load()
			require.NoError(t, err)
			require.Equal(t, Example(start+i), got)
		}
		got, err := reopen().Load()
		require.NoError(t, err)
		require.Equal(t, Example(start+19), got)
	})
	t.Run("bad record is refused", func(t *testing.T) { runRefusals(t, open) })
	t.Run("a saved record is the newest", func(t *testing.T) {
		c, reopen := open(t)
		stale := Example(start)
		stale.MaybeStale, stale.Restored = true, true
		require.NoError(t, c.Save(stale))
		got, err := reopen().Load()
		require.NoError(t, err)
		require.Equal(t, Example(start), got)
	})
	t.Run("nothing is shared with the caller", func(t *testing.T) {
		c, _ := open(t)
		r := Example(start)
		require.NoError(t, c.Save(r))
		r.Peers[0] = "changed"
		got, err := c.Load()
		require.NoError(t, err)
		require.Equal(t, Example(start), got)
		got.Peers[1] = "changed"
		again, err := c.Load()
		require.NoError(t, err)
		require.Equal(t, Example(start), again)
	})
	t.Run("concurrent use", func(t *testing.T) { runConcurrent(t, open) })
}

func runRoundTrips(t *testing.T, open Open) {
	cases := map[string]func(*worker.Record){
		"all fields": func(*worker.Record) {},
		"standalone": func(r *worker.Record) { r.Cluster, r.Peers, r.State = "", nil, "" },
		"no worker ID": func(r *worker.Record) {
			r.WorkerID, r.State, r.Floor, r.Limit, r.AckedLimit = worker.NoWorkerID, "", 0, 0, 0
		},
		"claiming":           func(r *worker.Record) { r.State, r.Limit, r.AckedLimit = worker.RecordClaiming, r.Floor, r.Floor },
		"claiming from 0 on": func(r *worker.Record) { r.State, r.Floor, r.Limit, r.AckedLimit = worker.RecordClaiming, 0, 0, 0 },
		"releasing":          func(r *worker.Record) { r.State, r.Limit = worker.RecordReleasing, r.Floor+1 },
		"released":           func(r *worker.Record) { r.State = worker.RecordReleased },
		"empty peers":        func(r *worker.Record) { r.Peers = []string{} },
		"worker 0":           func(r *worker.Record) { r.WorkerID = 0 },
		"largest worker":     func(r *worker.Record) { r.WorkerID = 1<<62 + 1 },
		"nothing issued":     func(r *worker.Record) { r.Ceiling = 0 },
		"idle clean stop":    func(r *worker.Record) { r.Ceiling = r.Timestamp - 3600_000 },
		"clock was set back": func(r *worker.Record) { r.Ceiling = r.Timestamp + 90*24*3600_000 },
		"epoch 0":            func(r *worker.Record) { r.Epoch = 0 },
		"epoch before 1970":  func(r *worker.Record) { r.Epoch = -1 },
		"awkward text": func(r *worker.Record) {
			r.Node = "\"quoted\" \\ <a&b> \n\t\x00 \u2028 ünï \U0001F600 }\n}"
			r.Peers = []string{"", "\"", strings.Repeat("x", 10000)}
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			want := Example(start)
			change(&want)
			c, reopen := open(t)
			require.NoError(t, c.Save(want))
			if len(want.Peers) == 0 {
				want.Peers = nil
			}
			got, err := c.Load()
			require.NoError(t, err)
			require.Equal(t, want, got)
			got, err = reopen().Load()
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

func runRefusals(t *testing.T, open Open) {
	cases := map[string]func(*worker.Record){
		"zero":                       func(r *worker.Record) { *r = worker.Record{} },
		"negative worker":            func(r *worker.Record) { r.WorkerID = -2 },
		"limit before floor":         func(r *worker.Record) { r.Limit = r.Floor - 1 },
		"acknowledged before floor":  func(r *worker.Record) { r.AckedLimit = r.Floor - 1 },
		"no limit":                   func(r *worker.Record) { r.Floor, r.Limit, r.AckedLimit = 0, 0, 0 },
		"no instance":                func(r *worker.Record) { r.Instance = "" },
		"no worker ID, and active":   func(r *worker.Record) { r.WorkerID = worker.NoWorkerID },
		"no cluster":                 func(r *worker.Record) { r.Cluster = "" },
		"another state":              func(r *worker.Record) { r.State = "lost" },
		"negative floor":             func(r *worker.Record) { r.Floor = -1 },
		"limit in nanoseconds":       func(r *worker.Record) { r.Limit *= 1e6 },
		"no timestamp":               func(r *worker.Record) { r.Timestamp = 0 },
		"negative timestamp":         func(r *worker.Record) { r.Timestamp = -1 },
		"timestamp in seconds":       func(r *worker.Record) { r.Timestamp /= 1000 },
		"timestamp in nanoseconds":   func(r *worker.Record) { r.Timestamp *= 1e6 },
		"negative ceiling":           func(r *worker.Record) { r.Ceiling = -1 },
		"negative losses":            func(r *worker.Record) { r.Losses = -1 },
		"negative life":              func(r *worker.Record) { r.Acked.Number = -1 },
		"negative next life":         func(r *worker.Record) { r.Current.Number = -1 },
		"negative longest lease":     func(r *worker.Record) { r.LongestLease = -1 },
		"negative longest session":   func(r *worker.Record) { r.LongestSession = -1 },
		"negative longest lend":      func(r *worker.Record) { r.LongestLend = -1 },
		"ceiling in nanoseconds":     func(r *worker.Record) { r.Ceiling *= 1e6 },
		"epoch past the timestamp":   func(r *worker.Record) { r.Epoch = r.Timestamp + 1 },
		"epoch in nanoseconds":       func(r *worker.Record) { r.Epoch *= 1e6 },
		"far negative epoch":         func(r *worker.Record) { r.Epoch = -1 << 62 },
		"node is no text":            func(r *worker.Record) { r.Node = "a\xff" },
		"a peer of them is no text":  func(r *worker.Record) { r.Peers[1] = "a\xff" },
		"no room":                    func(r *worker.Record) { r.Node = strings.Repeat("n", 20000) },
		"owner and cluster, no text": func(r *worker.Record) { r.Owner, r.Cluster = "\xff", "\xff" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			bad := Example(start + 1)
			change(&bad)
			c, reopen := open(t)

			require.ErrorIs(t, c.Save(bad), cache.ErrBadRecord)
			_, err := c.Load()
			require.ErrorIs(t, err, worker.ErrNoRecord)

			require.NoError(t, c.Save(Example(start)))
			require.ErrorIs(t, c.Save(bad), cache.ErrBadRecord)
			got, err := reopen().Load()
			require.NoError(t, err)
			require.Equal(t, Example(start), got)
		})
	}
}

// runConcurrent has many goroutines save records, and others load them.
func runConcurrent(t *testing.T, open Open) {
	const writers, readers, rounds = 4, 4, 25
	c, reopen := open(t)
	require.NoError(t, c.Save(Example(start)))
	errs := make(chan error, (writers+readers)*rounds)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range rounds {
				errs <- c.Save(Example(start + clock.Millis(w*rounds+i)))
			}
		})
	}
	for range readers {
		wg.Go(func() {
			for range rounds {
				r, err := c.Load()
				if err == nil && !reflect.DeepEqual(r, Example(r.Timestamp)) {
					err = fmt.Errorf("record mixed of several: %+v", r)
				}
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	before, err := c.Load()
	require.NoError(t, err)
	after, err := reopen().Load()
	require.NoError(t, err)
	require.Equal(t, before, after)
}
