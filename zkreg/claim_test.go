package zkreg_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/registrytest"
	"github.com/leafd/leafd/test/sessiontest"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
	"github.com/leafd/leafd/zkreg/zksession"
)

// tree is a cluster of eight worker IDs on a ZooKeeper in memory, to be looked at and written by
// hand.
type tree struct {
	*registrytest.World
	t   testing.TB
	mem *sessiontest.Memory
	clk *clocktest.Bubble
	raw zkreg.Session
}

func eight() snowflake.Layout {
	layout, err := snowflake.ParseLayout("41+3+19", snowflake.DefaultEpoch)
	if err != nil {
		panic(err)
	}
	return layout
}

// inTree runs f in a bubble, with a tree in which a cluster was made.
func inTree(t *testing.T, name string, f func(t *testing.T, tr *tree)) {
	t.Helper()
	clocktest.Run(t, name, func(t *testing.T) {
		clk := clocktest.NewBubble(time.Unix(1_700_000_000, 0))
		mem := sessiontest.NewMemory(clk)
		tr := &tree{World: registrytest.New(t, mem, clk, "/leaf", "memory:1"), t: t, mem: mem, clk: clk}
		var err error
		tr.raw, err = mem.Open(zksession.Config{Timeout: time.Hour})
		require.NoError(t, err)
		t.Cleanup(tr.raw.Close)
		tr.Init(eight())
		f(t, tr)
	})
}

// open opens the registry of a daemon.
func (tr *tree) open(node string, change ...func(*zkreg.Config)) *zkreg.Registry {
	cfg := zkreg.Config{
		Servers: []string{"memory:1"}, Root: "/leaf", Node: node, Address: node + ":1", Layout: eight(), Clock: tr.clk, Dial: tr.mem.Open, SessionTimeout: 6 * time.Second,
	}
	for _, f := range change {
		f(&cfg)
	}
	r, err := zkreg.Open(cfg)
	require.NoError(tr.t, err)
	tr.t.Cleanup(func() { require.NoError(tr.t, r.Close()) })
	return r
}

// me is the record of a new instance.
func (tr *tree) me(node string) worker.Record {
	now := tr.clk.Millis()
	return worker.Record{
		Node: node, WorkerID: worker.NoWorkerID, Instance: node, Owner: node + " life", Current: worker.Life{Owner: node + " life", Number: 1},
		Timestamp: now, Ceiling: now,
	}
}

// claim has a new instance claim.
func (tr *tree) claim(node string, change ...func(*zkreg.Config)) (worker.Snapshot, error) {
	tr.t.Helper()
	return claimAs(tr.t, tr.open(node, change...), tr.me(node), tr.clk.Millis())
}

func claimAs(t testing.TB, r *zkreg.Registry, me worker.Record, now clock.Millis) (worker.Snapshot, error) {
	t.Helper()
	s, err := r.Look(t.Context(), me)
	require.NoError(t, err)
	return r.Claim(t.Context(), s, me, now)
}

// holds is an entry of another instance's.
func (tr *tree) holds(workerID int64, state worker.EntryState, limit clock.Millis) worker.Entry {
	e := worker.Entry{
		WorkerID: workerID, Node: "x", IP: "x", Port: "1", State: state, Timestamp: 1, Ceiling: min(1, limit), Floor: min(1, limit), Limit: limit,
		Owner: fmt.Sprint("of ", workerID), Instance: fmt.Sprint("of ", workerID), Life: 1,
	}
	if state == worker.StateClaiming {
		e.Limit = e.Floor
	}
	return e
}

// full has other instances hold every worker ID but those, for long.
func (tr *tree) full(but ...int64) {
	left := map[int64]bool{}
	for _, id := range but {
		left[id] = true
	}
	for id := range int64(8) {
		if !left[id] {
			tr.Plant(tr.holds(id, worker.StateActive, tr.clk.Millis().Add(time.Hour)))
		}
	}
}

// spend moves ZooKeeper's counter on.
func (tr *tree) spend(n int) {
	for range n {
		_, err := sessiontest.Create(tr.t.Context(), tr.raw, "/leaf/leaf_forever/x", nil, 0)
		require.NoError(tr.t, err)
		require.NoError(tr.t, sessiontest.Remove(tr.t.Context(), tr.raw, "/leaf/leaf_forever/x", -1))
	}
}

func java(workerID int64) worker.Entry {
	return worker.Entry{WorkerID: workerID, Node: "10.0.0.9:1", IP: "10.0.0.9", Port: "1", State: zkreg.StateJava, Timestamp: 5}
}

// one-path: which worker ID a claim gets, of those that it may have.
func TestOrderOfCandidates(t *testing.T) {
	now := clock.MillisOf(time.Unix(1_700_000_000, 0))
	for name, tt := range map[string]struct {
		tree  func(tr *tree)
		want  int64 // 8: none
		floor clock.Millis
	}{
		"its own before a hint": {func(tr *tree) {
			own := tr.holds(5, worker.StateReleased, now-2)
			own.Instance = "new"
			tr.Plant(own)
			tr.Plant(tr.holds(2, worker.StateReleased, now-1))
			tr.Hint(2)
		}, 5, now - 2},
		"a hint before the next number": {func(tr *tree) {
			tr.Plant(tr.holds(5, worker.StateReleased, now-1))
			tr.Hint(5)
		}, 5, now - 1},
		"the next number before one that was never made, and before released ones without a hint": {func(tr *tree) {
			tr.Plant(tr.holds(5, worker.StateReleased, now-1))
			tr.spend(2)
		}, 3, 0},
		"a path made by hand holds the counter": {func(tr *tree) { tr.full(0) }, 0, 0},
		"one that was never made before one that has ended": {func(tr *tree) {
			tr.full(4, 6)
			tr.Plant(tr.holds(4, worker.StateActive, now-1))
			tr.spend(8)
		}, 6, 0},
		"one that has ended": {func(tr *tree) {
			tr.full(4)
			tr.Plant(tr.holds(4, worker.StateActive, now))
		}, 4, now},
		"a claim that is a minute old": {func(tr *tree) {
			tr.full(4)
			tr.Plant(tr.holds(4, worker.StateClaiming, 9))
			clocktest.Pass(time.Minute)
		}, 4, 1},
		"a claim that is not": {func(tr *tree) {
			tr.full(4)
			tr.Plant(tr.holds(4, worker.StateClaiming, 9))
			clocktest.Pass(time.Minute - 1)
		}, 8, 0},
		"a released one without a hint":   {func(tr *tree) { tr.full(4); tr.Plant(tr.holds(4, worker.StateReleased, now-7)) }, 4, now - 7},
		"a released one, its limit ahead": {func(tr *tree) { tr.full(4); tr.Plant(tr.holds(4, worker.StateReleased, now+1)) }, 8, 0},
		"one whose limit is ahead":        {func(tr *tree) { tr.full(4); tr.Plant(tr.holds(4, worker.StateActive, now+1)) }, 8, 0},
		"a released one beyond the layout, with a hint": {func(tr *tree) {
			tr.full()
			tr.Plant(tr.holds(9, worker.StateReleased, now-7))
			tr.Hint(9)
		}, 8, 0},
		"one that can't be read": {func(tr *tree) {
			tr.full(4)
			tr.Plant(tr.holds(4, worker.StateReleased, now-7))
			tr.Change(4, map[string]any{"limit": "soon"})
		}, 8, 0},

		// In a tree that Java Leafs share.
		"never 0, which a Java Leaf may take": {func(tr *tree) {
			_, err := sessiontest.Create(tr.t.Context(), tr.raw, "/leaf/leaf_forever/10.0.0.9:1-0000000007", []byte(`{"ip":"10.0.0.9","port":"1","timestamp":5}`), 0)
			require.NoError(tr.t, err)
			require.NoError(tr.t, sessiontest.Remove(tr.t.Context(), tr.raw, "/leaf/leaf_forever/10.0.0.9:1-0000000007", -1))
			tr.Plant(java(1)) // the counter is 2
		}, 2, 0},
		"not 0 either where it was released": {func(tr *tree) {
			tr.Plant(java(1))
			tr.Plant(tr.holds(0, worker.StateReleased, now-1))
			tr.Hint(0)
		}, 2, 0},
		"not the number of a Java Leaf's":    {func(tr *tree) { tr.Plant(java(1)) }, 2, 0},
		"none that was never made":           {func(tr *tree) { tr.Plant(java(1)); tr.spend(8) }, 8, 0},
		"none that has ended":                {func(tr *tree) { tr.Plant(java(1)); tr.Plant(tr.holds(4, worker.StateActive, 7)); tr.spend(8) }, 8, 0},
		"a released one, with a hint or not": {func(tr *tree) { tr.Plant(java(1)); tr.Plant(tr.holds(4, worker.StateReleased, 7)); tr.spend(8) }, 4, 7},
	} {
		inTree(t, name, func(t *testing.T, tr *tree) {
			tt.tree(tr)
			r, me := tr.open("new"), tr.me("new")
			if name == "its own before a hint" {
				me.WorkerID = 5
			}
			before := tr.names()
			got, err := claimAs(t, r, me, tr.clk.Millis())
			if tt.want == 8 {
				require.ErrorIs(t, err, worker.ErrExhausted)
				require.Equal(t, before, tr.names(), "it left nothing behind")
				return
			}
			require.NoError(t, err)
			e := got.Entry
			require.Equal(t, tt.want, e.WorkerID)
			require.Equal(t, []any{worker.StateClaiming, "new", "new life", int64(1)}, []any{e.State, e.Instance, e.Owner, e.Life})
			require.Equal(t, []clock.Millis{tt.floor, tt.floor}, []clock.Millis{e.Floor, e.Limit}, "floor-at-the-limit")
			require.NotContains(t, tr.Hints(), fmt.Sprintf("%010d", tt.want))
			require.LessOrEqual(t, len(tr.names()), len(before)+1)
		})
	}
}

func (tr *tree) names() []string {
	names, _, err := tr.raw.Children(tr.t.Context(), "/leaf/leaf_forever")
	require.NoError(tr.t, err)
	return names
}

// Nothing is left: it says when the next piece ends, regardless of what it draws first.
func TestExhaustedSaysWhenTheNextComesBack(t *testing.T) {
	inTree(t, "", func(t *testing.T, tr *tree) {
		tr.full(2, 4, 5)
		now := tr.clk.Millis()
		tr.Plant(tr.holds(2, worker.StateActive, now.Add(20*time.Minute)))
		tr.Plant(tr.holds(4, worker.StateReleased, now.Add(10*time.Minute)))
		tr.Plant(java(5))
		_, err := tr.claim("new")
		var exhausted *worker.ExhaustedError
		require.ErrorAs(t, err, &exhausted)
		require.Equal(t, worker.ExhaustedError{Highest: 7, Entries: 8, Next: now.Add(10 * time.Minute)}, *exhausted)
	})
}

// A limit has to have passed by our clock and by ZooKeeper's: one that is wrong takes
// nothing away from any holder.
func TestLimitIsJudgedByBothClocks(t *testing.T) {
	for name, tt := range map[string]struct {
		limit, off time.Duration // of ZooKeeper's now: the limit, and our clock
		taken      bool
	}{
		"passed on both":              {-time.Second, 0, true},
		"ahead of both":               {time.Hour, 0, false},
		"passed on our clock alone":   {time.Hour, 2 * time.Hour, false},
		"passed on ZooKeeper's alone": {-time.Second, -time.Hour, false},
	} {
		inTree(t, name, func(t *testing.T, tr *tree) {
			now := tr.clk.Millis()
			tr.full(4)
			tr.Plant(tr.holds(4, worker.StateActive, now.Add(tt.limit)))
			got, err := claimAs(t, tr.open("new"), tr.me("new"), now.Add(tt.off))
			if !tt.taken {
				require.ErrorIs(t, err, worker.ErrExhausted)
				return
			}
			require.NoError(t, err)
			require.Equal(t, now.Add(tt.limit), got.Entry.Floor)
		})
	}
}

// A hint that leads nowhere is removed by the claim that finds it, once it is a minute old, and nothing is
// made from it; one to an entry with its limit ahead stays for later.
func TestHints(t *testing.T) {
	inTree(t, "", func(t *testing.T, tr *tree) {
		now := tr.clk.Millis()
		tr.Plant(tr.holds(2, worker.StateReleased, now.Add(2*time.Minute)))
		tr.Plant(tr.holds(3, worker.StateActive, now.Add(time.Hour)))
		tr.Plant(tr.holds(4, worker.StateReleased, 5))
		tr.Change(4, map[string]any{"state": "?"}) // damaged
		tr.Plant(java(6))
		for _, id := range []int64{1, 2, 3, 4, 6, 9} {
			tr.Hint(id)
		}
		_, err := sessiontest.Create(t.Context(), tr.raw, "/leaf/leaf_released/by-hand", nil, 0)
		require.NoError(t, err)
		clocktest.Pass(time.Minute + time.Second)
		tr.Hint(8)
		got, err := tr.claim("new")
		require.NoError(t, err)
		require.Equal(t, int64(5), got.Entry.WorkerID, "ZooKeeper's next number but that which a hand has taken")
		require.ElementsMatch(t, []string{"0000000002", "0000000008", "by-hand"}, tr.Hints())
		clocktest.Pass(time.Minute)
		got, err = tr.claim("later")
		require.NoError(t, err)
		require.Equal(t, int64(2), got.Entry.WorkerID)
	})
}

// bounded-claim: of a thousand hints that lead nowhere, or to nothing that may be taken now, a claim follows
// a few, and takes the next number.
func TestHintsThatLeadNowhere(t *testing.T) {
	inTree(t, "", func(t *testing.T, tr *tree) {
		for id := range int64(1000) {
			tr.Hint(id)
		}
		var requests atomic.Int64
		r := tr.open("new", func(c *zkreg.Config) {
			c.Dial = func(cfg zksession.Config) (zkreg.Session, error) {
				s, err := tr.mem.Open(cfg)
				return counted{s, &requests}, err
			}
		})
		got, err := claimAs(t, r, tr.me("new"), tr.clk.Millis())
		require.NoError(t, err)
		require.Zero(t, got.Entry.WorkerID)
		require.Less(t, requests.Load(), int64(70))
		require.Len(t, tr.Hints(), 1000)
	})
}

// A claim that is given back may be taken at once, in a tree that Java Leafs share too, and says what it was
// made over, as the claim after it does.
func TestClaimIsGivenBack(t *testing.T) {
	inTree(t, "", func(t *testing.T, tr *tree) {
		tr.full(2, 3)
		tr.Plant(java(3))
		released := tr.holds(2, worker.StateReleased, 5)
		tr.Plant(released)
		tr.Hint(2)
		over := &worker.Over{Instance: released.Instance, Floor: released.Floor, Limit: released.Limit, Life: released.Life, State: worker.StateReleased}
		for _, node := range []string{"a", "b"} {
			r, me := tr.open(node), tr.me(node)
			got, err := claimAs(t, r, me, tr.clk.Millis())
			require.NoError(t, err, node)
			require.Equal(t, int64(2), got.Entry.WorkerID)
			require.Equal(t, over, tr.entry(2).Over, "made-over")
			require.Empty(t, tr.Hints())
			me.WorkerID, me.Floor, me.Limit = 2, got.Entry.Floor, got.Entry.Limit
			_, err = r.Write(t.Context(), got, me, worker.StateFree)
			require.NoError(t, err)
			e := tr.entry(2)
			require.Equal(t, []any{worker.StateClaiming, true, e.Floor, over}, []any{e.State, e.Free, e.Limit, e.Over})
			require.Equal(t, []string{"0000000002"}, tr.Hints())
		}
		r, me := tr.open("c"), tr.me("c")
		got, err := claimAs(t, r, me, tr.clk.Millis())
		require.NoError(t, err)
		me.WorkerID, me.Floor, me.Limit = 2, got.Entry.Floor, got.Entry.Floor+1
		got, err = r.Write(t.Context(), got, me, worker.StateActive)
		require.NoError(t, err)
		require.Nil(t, got.Entry.Over)
		require.False(t, got.Entry.Free)
	})
}

// root-floor: below the root's floor no instance gets a worker ID, and no piece begins below it.
func TestRootsFloor(t *testing.T) {
	inTree(t, "", func(t *testing.T, tr *tree) {
		tr.Plant(tr.holds(2, worker.StateReleased, 5))
		tr.Hint(2)
		s, err := tr.Directory().Recover(t.Context())
		require.NoError(t, err)
		require.Equal(t, tr.clk.Millis(), s.LostAt)
		require.Equal(t, tr.clk.Millis().Add(worker.DefaultLease+2*worker.DefaultClockThreshold), s.Floor, "loss-raises-floor")
		before := tr.names()
		_, err = tr.claim("new")
		require.ErrorIs(t, err, worker.ErrNoCluster)
		require.ErrorContains(t, err, s.Floor.String())
		require.ErrorContains(t, err, "leafd cluster open")
		require.Equal(t, before, tr.names())

		// By ZooKeeper's clock, not by ours.
		_, err = claimAs(t, tr.open("ahead"), tr.me("ahead"), s.Floor.Add(time.Hour))
		require.ErrorIs(t, err, worker.ErrNoCluster)
		clocktest.Pass(s.Floor.Sub(tr.clk.Millis()))
		got, err := tr.claim("new")
		require.NoError(t, err)
		require.Equal(t, []any{int64(2), s.Floor}, []any{got.Entry.WorkerID, got.Entry.Floor})
		got, err = tr.claim("next")
		require.NoError(t, err)
		require.Equal(t, s.Floor, got.Entry.Floor)

		// A clock of ours that is behind it waits.
		before = tr.names()
		_, err = claimAs(t, tr.open("behind"), tr.me("behind"), s.Floor-1)
		require.ErrorIs(t, err, worker.ErrNoCluster)
		require.Equal(t, before, tr.names())
	})
}

// meddler has something happen before one of a session's transactions.
type meddler struct {
	zkreg.Session

	before atomic.Pointer[func()]
}

func (m *meddler) Multi(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
	if f := m.before.Swap(nil); f != nil {
		(*f)()
	}
	return m.Session.Multi(ctx, connection, ops...)
}

// meddled opens a registry, and before its next transaction what is given to the function happens.
func (tr *tree) meddled(node string) (*zkreg.Registry, func(func())) {
	m := &meddler{}
	r := tr.open(node, func(c *zkreg.Config) {
		c.Dial = func(cfg zksession.Config) (_ zkreg.Session, err error) {
			m.Session, err = tr.mem.Open(cfg)
			return m, err
		}
	})
	return r, func(f func()) { m.before.Store(&f) }
}

// root-checked, written-as-decided: what a write meets that isn't what was read.
func TestWriteMeetsAnotherState(t *testing.T) {
	p := "/leaf/leaf_forever/worker-0000000003"
	anew := func(tr *tree, sets int) func() {
		return func() {
			data, _, err := tr.raw.Get(tr.t.Context(), p)
			require.NoError(tr.t, err)
			require.NoError(tr.t, sessiontest.Remove(tr.t.Context(), tr.raw, p, -1))
			_, err = sessiontest.Create(tr.t.Context(), tr.raw, p, data, 0)
			require.NoError(tr.t, err)
			for range sets {
				_, err = sessiontest.Set(tr.t.Context(), tr.raw, p, data, -1)
				require.NoError(tr.t, err)
			}
		}
	}
	for name, tt := range map[string]struct {
		absent bool
		happen func(tr *tree) func()
		want   error
	}{
		"nothing":         {false, func(*tree) func() { return func() {} }, nil},
		"nothing, absent": {true, func(*tree) func() { return func() {} }, nil},
		"written":         {false, func(tr *tree) func() { return func() { tr.Rewrite(3, "other") } }, worker.ErrChanged},
		"removed":         {false, func(tr *tree) func() { return func() { tr.Remove(3) } }, worker.ErrChanged},
		"made":            {true, func(tr *tree) func() { return func() { tr.Plant(tr.holds(3, worker.StateActive, 9)) } }, worker.ErrChanged},
		"the root written": {false, func(tr *tree) func() {
			return func() {
				_, err := tr.Directory().Recover(tr.t.Context())
				require.NoError(tr.t, err)
			}
		}, worker.ErrChanged},
		"the root written, absent": {true, func(tr *tree) func() {
			return func() {
				_, err := tr.Directory().Recover(tr.t.Context())
				require.NoError(tr.t, err)
			}
		}, worker.ErrChanged},
		"the parent gone":                 {true, func(tr *tree) func() { return tr.LoseEntries }, worker.ErrChanged},
		"another connection":              {false, func(tr *tree) func() { return func() { tr.mem.Expire(2) } }, worker.ErrChanged},
		"made again, an older version":    {false, func(tr *tree) func() { return anew(tr, 0) }, worker.ErrChanged},
		"made again, at the same version": {false, func(tr *tree) func() { return anew(tr, 1) }, worker.ErrFenced},
	} {
		inTree(t, name, func(t *testing.T, tr *tree) {
			r, next := tr.meddled("new")
			me := tr.me("new")
			me.WorkerID, me.Floor, me.Limit = 3, 5, 7
			if !tt.absent {
				tr.Plant(tr.holds(3, worker.StateActive, 6))
				tr.Change(3, map[string]any{"life": 2}) // version 1
			}
			s, err := r.Look(t.Context(), me)
			require.NoError(t, err)
			require.Equal(t, tt.absent, s.Entry == nil)
			next(tt.happen(tr))
			if name == "another connection" {
				next(func() {})
				tr.mem.Expire(r.Session().ID)
			}
			got, err := r.Write(t.Context(), s, me, worker.StateActive)
			if tt.want != nil {
				require.ErrorIs(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			again, err := r.Look(t.Context(), me)
			require.NoError(t, err)
			require.Equal(t, again.Entry, got.Entry, "it returns what stands")
			require.Equal(t, []any{"new", "new life", int64(1), clock.Millis(5), clock.Millis(7)}, []any{got.Entry.Instance, got.Entry.Owner, got.Entry.Life, got.Entry.Floor, got.Entry.Limit})
		})
	}
	inTree(t, "beyond the layout", func(t *testing.T, tr *tree) {
		r, me := tr.open("new"), tr.me("new")
		me.WorkerID = 8
		s, err := r.Look(t.Context(), me)
		require.NoError(t, err)
		_, err = r.Write(t.Context(), s, me, worker.StateActive)
		require.ErrorIs(t, err, worker.ErrForeign)
	})
}

// A conflict is about one worker ID, and another one does; about the root, all is looked at again.
func TestClaimMeetsAnotherState(t *testing.T) {
	inTree(t, "another took it", func(t *testing.T, tr *tree) {
		tr.Plant(tr.holds(3, worker.StateReleased, 5))
		tr.Hint(3)
		r, next := tr.meddled("new")
		next(func() {
			got, err := tr.claim("faster")
			require.NoError(t, err)
			require.Equal(t, int64(3), got.Entry.WorkerID)
		})
		got, err := claimAs(t, r, tr.me("new"), tr.clk.Millis())
		require.NoError(t, err)
		require.Equal(t, int64(1), got.Entry.WorkerID)
		require.Equal(t, "faster", tr.entry(3).Instance)
	})
	inTree(t, "its owner is back", func(t *testing.T, tr *tree) {
		tr.full(3)
		tr.Plant(tr.holds(3, worker.StateActive, 5))
		r, next := tr.meddled("new")
		next(func() { tr.Change(3, map[string]any{"limit": tr.clk.Millis().Add(time.Hour)}) })
		_, err := claimAs(t, r, tr.me("new"), tr.clk.Millis())
		require.ErrorIs(t, err, worker.ErrExhausted)
		require.Equal(t, "of 3", tr.entry(3).Instance)
	})
	inTree(t, "the parent is gone", func(t *testing.T, tr *tree) {
		r, me := tr.open("new"), tr.me("new")
		s, err := r.Look(t.Context(), me)
		require.NoError(t, err)
		tr.LoseEntries()
		_, err = r.Claim(t.Context(), s, me, tr.clk.Millis())
		require.ErrorIs(t, err, worker.ErrChanged)
	})
	inTree(t, "a loss was noted", func(t *testing.T, tr *tree) {
		r, next := tr.meddled("new")
		next(func() {
			_, err := tr.Directory().Recover(tr.t.Context())
			require.NoError(tr.t, err)
		})
		_, err := claimAs(t, r, tr.me("new"), tr.clk.Millis())
		require.ErrorIs(t, err, worker.ErrChanged)
	})
}

func (tr *tree) entry(workerID int64) worker.Entry {
	all, err := tr.Directory().Entries(tr.t.Context())
	require.NoError(tr.t, err)
	for _, e := range all {
		if e.WorkerID == workerID {
			return e
		}
	}
	return worker.Entry{}
}

// fixedRoot has a life fix the root until Decide says something else, and returns what it did.
func fixedRoot(t testing.TB, r *zkreg.Registry, me worker.Record, now clock.Millis) (did []worker.Action, then worker.Action) {
	t.Helper()
	for {
		s, err := r.Look(t.Context(), me)
		require.NoError(t, err)
		do := worker.Decide(me, s, worker.Moment{Clock: now, Margin: 10 * time.Second})
		if !do.FixesRoot() {
			return did, do
		}
		require.NoError(t, r.FixRoot(t.Context(), s, me, do))
		did = append(did, do)
	}
}

// Where Java Leafs share the tree, the counter of a parent that is made again, and of one
// that was restored, is beyond every worker ID of theirs.
func TestCounterBesideJavaLeafs(t *testing.T) {
	next := func(tr *tree, forever string) string {
		p, err := sessiontest.Create(tr.t.Context(), tr.raw, forever+"/10.0.0.9:1-", nil, zk.FlagSequence)
		require.NoError(tr.t, err)
		return p[len(p)-10:]
	}
	const forever = "/snowflake/shop/forever"
	shared := func(t *testing.T, tr *tree) *zkreg.Directory {
		d, err := zkreg.OpenDirectory(zkreg.Config{Servers: []string{"memory:1"}, Root: "/other", ForeverPath: forever, Layout: snowflake.DefaultLayout(), Clock: tr.clk, Dial: tr.mem.Open})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		_, err = d.Init(t.Context(), worker.DefaultLease, 0, true)
		require.NoError(t, err)
		require.Equal(t, "0000000000", next(tr, forever), "a new one begins as a Java Leaf knows it")
		require.NoError(t, sessiontest.Remove(t.Context(), tr.raw, forever+"/10.0.0.9:1-0000000000", -1))
		require.NoError(t, sessiontest.Remove(t.Context(), tr.raw, forever, -1))
		return d
	}
	inTree(t, "a parent that is made again", func(t *testing.T, tr *tree) {
		shared(t, tr)
		cfg := func(c *zkreg.Config) { c.Root, c.ForeverPath, c.Layout = "/other", forever, snowflake.DefaultLayout() }
		fixedRoot(t, tr.open("a", cfg), tr.me("a"), tr.clk.Millis())
		require.Greater(t, next(tr, forever), "0000001023")
	})
	inTree(t, "a parent that a Java Leaf made: once, before the root names it", func(t *testing.T, tr *tree) {
		d := shared(t, tr)
		_, err := sessiontest.Create(t.Context(), tr.raw, forever, nil, 0)
		require.NoError(t, err)
		require.Equal(t, "0000000000", next(tr, forever))
		for _, counter := range []string{"0000001025", "0000001026"} {
			s, err := d.Open(t.Context())
			require.NoError(t, err)
			require.Equal(t, []any{int64(1), s.Root.Parent}, []any{s.Losses, s.Parent})
			require.Equal(t, counter, next(tr, forever))
		}
	})
	inTree(t, "recovered, an entry of theirs stands", func(t *testing.T, tr *tree) {
		tr.Plant(java(1))
		_, err := tr.Directory().Recover(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, next(tr, "/leaf/leaf_forever"), "0000001024")
	})
	inTree(t, "recovered, none of them", func(t *testing.T, tr *tree) {
		_, err := tr.Directory().Recover(t.Context())
		require.NoError(t, err)
		require.Equal(t, "0000000000", next(tr, "/leaf/leaf_forever"))
	})
}

// What can't be made out ends the call that would go by it, with what to do.
func TestDamagedIsNobodys(t *testing.T) {
	inTree(t, "entry", func(t *testing.T, tr *tree) {
		tr.Plant(tr.holds(3, worker.StateReleased, 5))
		tr.Change(3, map[string]any{"floor": -1})
		me := tr.me("a")
		me.WorkerID = 3
		s, err := tr.open("a").Look(t.Context(), me)
		require.NoError(t, err)
		require.Equal(t, worker.StateDamaged, s.Entry.State)
		_, err = tr.Directory().Release(t.Context(), 3, true)
		require.ErrorIs(t, err, worker.ErrDamaged)
		require.ErrorContains(t, err, "/leaf/leaf_forever/worker-0000000003")
		require.ErrorContains(t, err, "never delete it")
	})
	inTree(t, "a Java Leaf's payload at our path", func(t *testing.T, tr *tree) {
		_, err := sessiontest.Create(t.Context(), tr.raw, "/leaf/leaf_forever/worker-0000000003", []byte(`{"ip":"10.0.0.9","port":"1","timestamp":5}`), 0)
		require.NoError(t, err)
		all, err := tr.Directory().Entries(t.Context())
		require.NoError(t, err)
		require.Equal(t, worker.StateDamaged, all[0].State)
	})
	inTree(t, "live node", func(t *testing.T, tr *tree) {
		tr.Plant(worker.Entry{WorkerID: 3, Node: "a", IP: "a", Port: "1", State: worker.StateActive, Owner: "a life", Instance: "a", Limit: 9})
		_, err := sessiontest.Create(t.Context(), tr.raw, "/leaf/leaf_temporary/a:1~a", []byte("{"), 0)
		require.NoError(t, err)
		me := tr.me("a")
		me.WorkerID = 3
		s, err := tr.open("a").Look(t.Context(), me)
		require.NoError(t, err)
		require.NotEmpty(t, s.Live, "somebody is")
	})
}

// A worker ID in use is released by force alone; what its holder may have issued meanwhile is left out, and the rest stays.
func TestRelease(t *testing.T) {
	inTree(t, "", func(t *testing.T, tr *tree) {
		now := tr.clk.Millis()
		held := tr.holds(3, worker.StateActive, now.Add(time.Hour))
		tr.Plant(held)
		release := func(workerID int64, force bool) (worker.Entry, error) {
			return tr.Directory().Release(t.Context(), workerID, force)
		}
		_, err := release(3, false)
		require.ErrorIs(t, err, worker.ErrInUse)
		released, err := release(3, true)
		require.NoError(t, err)
		require.Less(t, released.Limit, held.Limit)
		require.Greater(t, released.Limit, held.Ceiling, "it may have issued while it could not report")
		held.State, held.Limit, held.Stat = worker.StateReleased, released.Limit, released.Stat
		require.Equal(t, held, released)
		again, err := release(3, false)
		require.NoError(t, err)
		again.Stat = released.Stat
		require.Equal(t, released, again)
		_, err = release(4, true)
		require.ErrorIs(t, err, worker.ErrNoEntry)

		// A Java Leaf's, on the operator's word that it is gone for good: its own entry goes in the same transaction.
		tr.Plant(java(5))
		_, err = release(5, false)
		require.ErrorIs(t, err, worker.ErrInUse)
		require.Contains(t, tr.names(), "10.0.0.9:1-0000000005")
		released, err = release(5, true)
		require.NoError(t, err)
		require.Equal(t, worker.StateReleased, released.State)
		require.Greater(t, released.Limit, now, "it may have issued up to now")
		require.ElementsMatch(t, []string{"worker-0000000003", "worker-0000000005"}, tr.names())
	})
}

// Show puts this life's node up, in this session, regardless of which session's was there and of a parent that is gone.
func TestShow(t *testing.T) {
	inTree(t, "", func(t *testing.T, tr *tree) {
		const p = "/leaf/leaf_temporary/a:1~a"
		r, me := tr.open("a"), tr.me("a")
		_, err := sessiontest.Create(t.Context(), tr.raw, p, []byte("another life"), zk.FlagEphemeral)
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, r.Show(t.Context(), me, true))
			data, stat, err := tr.raw.Get(t.Context(), p)
			require.NoError(t, err)
			require.Equal(t, []any{"a life", r.Session().ID}, []any{string(data), stat.EphemeralOwner})
			require.NoError(t, r.Show(t.Context(), me, false))
			require.NoError(t, sessiontest.Remove(t.Context(), tr.raw, "/leaf/leaf_temporary", -1)) // an operator tidied up
		}
	})
}

// counted counts the requests of a session.
type counted struct {
	zkreg.Session
	n *atomic.Int64
}

func (c counted) Get(ctx context.Context, p string) ([]byte, *zk.Stat, error) {
	c.n.Add(1)
	return c.Session.Get(ctx, p)
}

func (c counted) Exists(ctx context.Context, p string) (bool, *zk.Stat, error) {
	c.n.Add(1)
	return c.Session.Exists(ctx, p)
}

func (c counted) Children(ctx context.Context, p string) ([]string, *zk.Stat, error) {
	c.n.Add(1)
	return c.Session.Children(ctx, p)
}

func (c counted) Multi(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
	c.n.Add(1)
	return c.Session.Multi(ctx, connection, ops...)
}

func (c counted) Sync(ctx context.Context, p string) error {
	c.n.Add(1)
	return c.Session.Sync(ctx, p)
}

// A hundred at once, from a hundred released worker IDs, on three servers of which one may lag behind: each has one, in a
// constant number of requests.
func TestHundredClaimsAtOnce(t *testing.T) {
	t.Parallel()
	const n, most = 100, 40
	ensemble := zookeepertest.StartEnsemble(t, 3)
	w := registrytest.New(t, sessiontest.Servers(t), clock.System(), "/leaf", ensemble.Addrs()...)
	w.Init(snowflake.DefaultLayout())
	now := w.Now()
	for id := range int64(n) {
		w.Plant(worker.Entry{WorkerID: id, Node: "x", IP: "x", Port: "1", State: worker.StateReleased, Timestamp: 1, Owner: "x", Instance: "x", Life: 1, Limit: now - 1})
		w.Hint(id)
	}
	registries, requests := make([]*zkreg.Registry, n), make([]atomic.Int64, n)
	for i := range registries {
		var err error
		registries[i], err = zkreg.Open(zkreg.Config{
			Servers: ensemble.Addrs(), Root: w.Root(), Node: fmt.Sprint("n", i), Address: fmt.Sprintf("n%d:1", i), Layout: snowflake.DefaultLayout(), Clock: clock.System(), SessionTimeout: 12 * time.Second,
			Dial: func(cfg zksession.Config) (zkreg.Session, error) {
				s, err := zksession.Open(cfg)
				return counted{s, &requests[i]}, err
			},
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = registries[i].Close() })
		_, err = registries[i].Peers(t.Context()) // it is connected
		require.NoError(t, err)
		requests[i].Store(0)
	}
	got, errs := make([]worker.Snapshot, n), make([]error, n)
	var group sync.WaitGroup
	for i, r := range registries {
		group.Go(func() {
			me := worker.Record{WorkerID: worker.NoWorkerID, Instance: fmt.Sprint("n", i), Current: worker.Life{Owner: fmt.Sprint("life ", i), Number: 1}, Timestamp: now, Ceiling: now}
			var s worker.Snapshot
			if s, errs[i] = r.Look(t.Context(), me); errs[i] == nil {
				got[i], errs[i] = r.Claim(t.Context(), s, me, w.Now())
			}
		})
	}
	group.Wait()
	seen, highest := map[int64]bool{}, int64(0)
	for i, s := range got {
		require.NoError(t, errs[i])
		require.False(t, seen[s.Entry.WorkerID], "worker %d twice", s.Entry.WorkerID)
		seen[s.Entry.WorkerID] = true
		require.LessOrEqual(t, requests[i].Load(), int64(most))
		highest = max(highest, requests[i].Load())
	}
	t.Logf("at most %d requests each", highest)
	require.Empty(t, w.Hints())
	for id := range int64(n) {
		require.True(t, seen[id], "worker %d was left", id)
	}
}
