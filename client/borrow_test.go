package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// lender is a daemon that lends, in a bubble: its clock is the bubble's.
type lender struct {
	ranges fake
	lease  time.Duration
	mu     sync.Mutex
	names  []string // mu protects; of the requests for slices
	back   []string // mu protects; slices that were given back, and the millisecond up to which they were used
	// instead changes an answer, or answers itself; it returns false then.
	instead func(w http.ResponseWriter, answer map[string]any) bool
}

const (
	layout = "41+5+5+12"
	epoch  = 900_000_000_000 // bubbles begin in 2000
)

func (f *lender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, isLend := strings.CutPrefix(r.URL.Path, lendPath)
	if !isLend {
		f.ranges.ServeHTTP(w, r)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Method == http.MethodDelete {
		f.back = append(f.back, name+" "+r.URL.Query().Get("used"))
		return
	}
	name = r.URL.Query().Get("slice")
	f.names = append(f.names, name)
	now := time.Now().UnixMilli()
	answer := map[string]any{
		"slice": name, "worker": 7, "datacenter": 0, "first": 2064, "last": 2079, "from": now, "until": now + 600_000, "now": now,
		"epoch": epoch, "layout": layout,
	}
	if f.instead == nil || f.instead(w, answer) {
		_ = json.NewEncoder(w).Encode(answer)
	}
}

// requests returns what the lender was asked for.
func (f *lender) requests() (names, back, ranges []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.names, f.back, f.ranges.requests()
}

// borrowing runs a test with a client of a lender in a bubble.
func borrowing(t *testing.T, f *lender, test func(t *testing.T, c *Client, s *Source)) {
	synctest.Test(t, func(t *testing.T) {
		f.ranges.issued = make(map[int64]struct{})
		c, err := New(Config{Addresses: []string{"http://leafd"}, HTTPClient: &http.Client{Transport: transport{f}}, Lease: cmp.Or(f.lease, time.Hour), RequestTimeout: 5 * time.Second, MaxAge: -1})
		require.NoError(t, err)
		defer c.Close()
		c.borrows.nap = time.Sleep
		s := c.Snowflake("order/1")
		next(t, s) // a range's, for the slice is on its way
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		test(t, c, s)
	})
}

func next(t *testing.T, s *Source) int64 {
	t.Helper()
	id, err := s.Next(t.Context())
	require.NoError(t, err)
	return id
}

// requireOfNow fails where an ID isn't of this millisecond: those of the bubble and of the slice begin at different moments.
func requireOfNow(t *testing.T, id int64) {
	t.Helper()
	require.Contains(t, []int64{time.Now().UnixMilli() - 1, time.Now().UnixMilli()}, ms(id))
}

// ms is the time in an ID of a slice, and place its datacenter, worker and number.
func ms(id int64) int64    { return id>>22 + epoch }
func place(id int64) int64 { return id & (1<<22 - 1) }

// TestSliceOfTheDaemon: IDs have the time of the call, those of all snowflake sources come from one slice and wait for the next
// millisecond (B6), and the slice is given back at Close (B3).
func TestSliceOfTheDaemon(t *testing.T) {
	f := &lender{}
	var name string
	var last int64
	borrowing(t, f, func(t *testing.T, c *Client, s *Source) {
		other := c.Snowflake("user")
		seen := map[int64]bool{}
		for begun := time.Now(); time.Since(begun) < time.Second; {
			id := next(t, s)
			requireOfNow(t, id)
			require.Equal(t, int64(7<<12|2064), place(id)&^15)
			last = next(t, other)
			require.Greater(t, last, id)
			seen[id], seen[last] = true, true
		}
		require.InDelta(t, 16_000, len(seen), 16)
		sharded, err := WithShard(last, 9, 5, 5, 12)
		require.NoError(t, err)
		require.Equal(t, int64(9), sharded>>17&31)
		require.Equal(t, int64(len(seen)), s.Stats().Lent+other.Stats().Lent)
		require.InDelta(t, 10*time.Minute, s.Stats().Lease, float64(2*time.Second))
		ids := make([]int64, 3)
		require.NoError(t, s.NextN(t.Context(), ids))
		require.Equal(t, []int64{2, 3, 4}, ids, "of a range")

		var naps, most atomic.Int32
		c.borrows.nap = func(d time.Duration) { most.Store(max(most.Load(), naps.Add(1))); time.Sleep(d); naps.Add(-1) }
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() { _, _ = s.Next(t.Context()) })
		}
		callers.Wait()
		require.Equal(t, int32(1), most.Load(), "one waits for the millisecond, the others for it")

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Microsecond)
		defer cancel()
		for last = next(t, other); last&15 < 15; {
			last = next(t, other)
		}
		_, err = s.Next(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "order%2F1")
		names, _, ranges := f.requests()
		require.Len(t, names, 1)
		require.Len(t, ranges, 1)
		name = names[0]
		c.Close()
		_, err = s.Next(t.Context())
		require.ErrorIs(t, err, ErrClosed)
	})
	_, back, _ := f.requests()
	require.Equal(t, []string{fmt.Sprintf("%s %d", name, ms(last))}, back)
}

// TestSlicesFollow tries B6: a slice is asked for again at half of its time, of a daemon whose answer took up to a second as well; no ID is of
// a range, IDs grow, and the slice before is given back with the last of its milliseconds.
func TestSlicesFollow(t *testing.T) {
	f := &lender{}
	n := 0
	f.instead = func(_ http.ResponseWriter, answer map[string]any) bool {
		n++
		answer["worker"] = 7 + n%2
		time.Sleep(time.Duration(n) * 100 * time.Millisecond)
		return true
	}
	borrowing(t, f, func(t *testing.T, _ *Client, s *Source) {
		time.Sleep(time.Second)
		last, newest := next(t, s), map[int64]int64{} // by worker
		begun := time.Now()
		for time.Since(begun) < 21*time.Minute {
			id := next(t, s)
			require.Greater(t, id, last)
			last, newest[id>>12&31] = id, ms(id)
			time.Sleep(7 * time.Millisecond)
		}
		names, back, ranges := f.requests()
		require.Len(t, names, 5)
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(names))), 5)
		require.Len(t, ranges, 1)
		require.Len(t, back, 4)
		require.Equal(t, fmt.Sprintf("%s %d", names[3], newest[7]), back[3])
	})
}

// TestAllLendersGone: IDs go on until Config.Lease is over, then from ranges once a daemon answers, and from a slice again (B1, B7).
func TestAllLendersGone(t *testing.T) {
	f := &lender{lease: 10 * time.Minute, instead: func(_ http.ResponseWriter, a map[string]any) bool {
		a["until"] = a["now"].(int64) + 3_600_000
		return true
	}}
	borrowing(t, f, func(t *testing.T, _ *Client, s *Source) {
		begun := time.Now().Add(-100 * time.Millisecond)
		f.mu.Lock()
		f.instead = func(w http.ResponseWriter, _ map[string]any) bool { w.WriteHeader(http.StatusBadGateway); return false }
		f.mu.Unlock()
		f.ranges.do(func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			w.WriteHeader(http.StatusBadGateway)
			return true
		})
		for time.Since(begun) < 10*time.Minute-time.Second {
			require.Equal(t, int64(7), next(t, s)>>12&31)
			time.Sleep(50 * time.Millisecond)
		}
		require.NoError(t, s.NextN(t.Context(), make([]int64, 63))) // what was fetched ahead
		require.InDelta(t, time.Second, s.Stats().Lease, float64(time.Second))
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := s.Next(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		names, _, _ := f.requests()
		require.Less(t, len(names), 20)
		f.mu.Lock()
		f.instead = nil
		f.mu.Unlock()
		f.ranges.do(nil)
		require.Equal(t, int64(65), next(t, s))
		time.Sleep(2 * time.Minute)
		requireOfNow(t, next(t, s))
	})
}

// TestNothingLent tries B4, B5 and B7: an answer that can't be used, comes late, or is none leaves ranges, is asked for again,
// under the same name, and not often.
func TestNothingLent(t *testing.T) {
	type answer = map[string]any
	set := func(name string, value any) func(http.ResponseWriter, answer) bool {
		return func(_ http.ResponseWriter, a answer) bool { a[name] = value; return true }
	}
	says := func(status int, body string) func(http.ResponseWriter, answer) bool {
		return func(w http.ResponseWriter, _ answer) bool {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return false
		}
	}
	past := func(a answer, d int64) int64 { return a["now"].(int64) + d }
	tests := map[string]func(http.ResponseWriter, answer) bool{
		"another's":          set("slice", "another"),
		"a worker too large": set("worker", 32),
		"a datacenter":       set("datacenter", 32),
		"past the sequence":  set("last", 4096),
		"backwards":          set("first", 2080),
		"a string":           set("until", "1790000000000"),
		"a later epoch":      func(_ http.ResponseWriter, a answer) bool { a["epoch"] = past(a, 300_000); return true },
		"in 2527": func(_ http.ResponseWriter, a answer) bool {
			a["layout"], a["first"], a["last"], a["from"], a["now"], a["until"] = "45+5+5+8", 16, 31, 1<<44, 1<<44, 1<<44+60_000
			return true
		},
		"too many":          func(_ http.ResponseWriter, a answer) bool { a["layout"], a["last"] = "36+1+5+21", 1<<21-1; return true },
		"a layout of three": set("layout", "41+10+12"), // but a datacenter
		"64 bits":           set("layout", "42+5+5+12"),
		"ended": func(_ http.ResponseWriter, a answer) bool {
			a["from"], a["until"] = past(a, -1000), a["now"]
			return true
		},
		"ends before it begins": func(_ http.ResponseWriter, a answer) bool {
			a["from"], a["until"] = past(a, 2000), past(a, 1000)
			return true
		},
		"too long":       func(_ http.ResponseWriter, a answer) bool { a["until"] = past(a, 3_600_001); return true },
		"begun long ago": func(_ http.ResponseWriter, a answer) bool { a["from"] = past(a, -3_600_000); return true },
		"slow":           func(http.ResponseWriter, answer) bool { time.Sleep(slowestLend + 1); return true },
		"cached":         func(w http.ResponseWriter, _ answer) bool { w.Header().Set("Age", "1"); return true },
		"not lent here":  says(http.StatusNotFound, `{"code":"mode_disabled","message":"nothing is lent"}`),
		"a proxy":        says(http.StatusForbidden, "<html>"),
		"half":           says(http.StatusOK, `{"slice":"`),
	}
	for _, name := range []string{"slice", "worker", "datacenter", "first", "last", "from", "until", "now", "epoch", "layout"} {
		tests["without "+name] = func(_ http.ResponseWriter, a answer) bool { delete(a, name); return true }
	}
	for name, instead := range tests {
		t.Run(name, func(t *testing.T) {
			f := &lender{instead: func(w http.ResponseWriter, a answer) bool {
				if name == "a layout of three" {
					a["datacenter"] = 1
				}
				return instead(w, a)
			}}
			borrowing(t, f, func(t *testing.T, c *Client, s *Source) {
				for want := int64(2); want < 100; want++ {
					require.Equal(t, want, next(t, s))
					time.Sleep(time.Minute / 100)
				}
				require.Zero(t, s.Stats().Lent)
				_, until := c.daemons[0].state()
				require.Zero(t, until, "ranges are asked for as before")
				time.Sleep(time.Hour)
				names, back, _ := f.requests()
				require.Greater(t, len(names), 60)
				require.Less(t, len(names), 150)
				for _, again := range names {
					require.Equal(t, names[0], again)
				}
				require.Empty(t, back)
				f.mu.Lock()
				f.instead = nil
				f.mu.Unlock()
				time.Sleep(time.Minute)
				requireOfNow(t, next(t, s))
			})
		})
	}
}

// TestSliceLater tries B6: until a slice begins IDs are of ranges, or of the slice before. One that is far behind isn't waited for.
func TestSliceLater(t *testing.T) {
	behind := int64(0)
	f := &lender{instead: func(_ http.ResponseWriter, a map[string]any) bool {
		for _, name := range []string{"from", "until", "now"} {
			a[name] = a[name].(int64) - behind
		}
		a["from"] = a["from"].(int64) + 60_000
		return true
	}}
	borrowing(t, f, func(t *testing.T, _ *Client, s *Source) {
		for want := int64(2); want < 60; want++ {
			time.Sleep(time.Second)
			require.Equal(t, want, next(t, s))
		}
		time.Sleep(2 * time.Second)
		requireOfNow(t, next(t, s))
		for range 600 {
			time.Sleep(time.Second)
			requireOfNow(t, next(t, s))
		}
		f.mu.Lock()
		behind = 5000
		f.mu.Unlock()
		id := int64(0)
		for range 480 {
			time.Sleep(time.Second)
			begun := time.Now()
			id = next(t, s)
			require.Zero(t, time.Since(begun))
		}
		require.InDelta(t, time.Now().UnixMilli()-behind, ms(id), 1)
		require.Equal(t, int64(firstSize), s.Stats().Fetched)
	})
}

// TestNoRangeBetweenSlices tries B6 from many callers.
func TestNoRangeBetweenSlices(t *testing.T) {
	s := quiet(t)
	var callers sync.WaitGroup
	var done atomic.Bool
	for range 2 {
		callers.Go(func() {
			for !done.Load() {
				if _, err := s.Next(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 50 {
		l := lent(time.Hour)
		l.size, l.until, l.daemon = 1<<20, l.until<<16, s.client.daemons[0]
		s.borrows.follow(t.Context(), l)
	}
	done.Store(true)
	callers.Wait()
	require.Zero(t, s.Stats().Requests)
}
