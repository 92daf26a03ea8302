package zkreg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
)

// napping is a clock on which every sleep is over at once, and with it whatever happened
// meanwhile.
type napping struct {
	clock.Clock

	slept     time.Duration
	meanwhile func()
}

func (n *napping) Sleep(_ context.Context, d time.Duration) error {
	n.slept += d
	n.meanwhile()
	return nil
}

// zkreg.J1, zkreg.J2.
func TestEntryIsClosedToJavaLeafs(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	cfg := daemonConfig(server, madeRoot(t, server), "10.0.0.6:8080")
	clk := &napping{Clock: cfg.Clock, meanwhile: func() {}}
	onNaps := cfg
	onNaps.Clock = clk
	d := directory(t, onNaps)
	const address = "10.0.0.5:8080"
	path := cfg.Root + "/leaf_forever/" + address + "-0000000003"
	java := payloads(t, "good-java.json")["good-java"]
	_, err := d.FindJava(bounded(t, patience), address)
	require.ErrorIs(t, err, worker.ErrNoEntry)
	put(t, conn, path, java)
	find := func(address string) *JavaMove {
		t.Helper()
		m, err := d.FindJava(bounded(t, patience), address)
		require.NoError(t, err)
		return m
	}
	stands := func(want []byte, says string) {
		t.Helper()
		got, _, err := conn.Get(path)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), says)
	}

	m := find(address)
	require.True(t, m.IsJava() && m.Open())
	clk.meanwhile = func() {
		_, err := conn.Set(path, java, -1)
		require.NoError(t, err)
	}
	require.ErrorIs(t, m.Watch(bounded(t, patience)), worker.ErrHeld, "a Java Leaf that runs writes")
	require.Equal(t, javaSilence, clk.slept)
	require.ErrorIs(t, m.Close(bounded(t, patience)), worker.ErrInUse)
	stands(java, "it has been written since it was found")

	clk.meanwhile = func() {}
	m = find(address)
	require.NoError(t, m.Watch(bounded(t, patience)))
	require.NoError(t, m.Close(bounded(t, patience)))
	closed := find(address)
	require.True(t, closed.IsJava())
	require.False(t, closed.Open(), "a Java Leaf refuses fields that it doesn't know")
	for _, field := range []string{`"instance":"a"`, `"owner":"a"`, `"state":"released"`} { // each one is leafd's
		data, err := decodeEntry(path, []byte(`{"timestamp":1,`+field+`}`))
		require.NoError(t, err)
		require.False(t, (&JavaMove{entry: entry{data: data}}).IsJava(), field)
	}
	require.Equal(t, m.Entry(), closed.Entry(), "leafd reads what it read before")
	require.Equal(t, m.entry.data, closed.entry.data)

	_, rec := claimed(t, cfg)
	leafd := find(cfg.Node)
	require.Equal(t, rec.WorkerID, leafd.Entry().WorkerID)
	require.False(t, leafd.IsJava() || leafd.Open())
	require.ErrorIs(t, leafd.Watch(bounded(t, patience)), worker.ErrHeld)
	require.ErrorIs(t, leafd.Close(bounded(t, patience)), worker.ErrHeld)

	_, err = conn.Create(cfg.Root+"/leaf_forever/10.0.0.9:8080-0000000003", java, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, err = d.FindJava(bounded(t, patience), address)
	require.ErrorIs(t, err, worker.ErrHeld, "two have worker 3")
	other := cfg
	other.Layout = snowflake.Layout{}
	_, err = directory(t, other).FindJava(bounded(t, patience), address)
	require.ErrorIs(t, err, worker.ErrForeign)
}

// zkreg.J3, zkreg.J4: what is in the way of a Java Leaf, one thing each.
func TestEntryIsAJavaLeafsAgain(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	const address = "10.0.0.5:8080"
	java := payloads(t, "good-java.json")["good-java"]
	entryHas := func(change func(*entryData)) func(*testing.T, Config, *worker.Record) {
		return func(t *testing.T, cfg Config, _ *worker.Record) {
			path := cfg.Root + "/leaf_forever/" + address + "-0000000000"
			stands, _, err := conn.Get(path)
			require.NoError(t, err)
			data, err := decodeEntry(path, stands)
			require.NoError(t, err)
			change(&data)
			_, err = conn.Set(path, encode(data), -1)
			require.NoError(t, err)
		}
	}
	ahead := clock.System().Read().Wall().Add(time.Hour)
	for name, tc := range map[string]struct {
		before func(t *testing.T, cfg Config, self *worker.Record) // the entry is looked at
		since  func(t *testing.T, cfg Config, path string)         // it was
		runs   bool
		fails  error
		says   string
	}{
		"nothing":                  {},
		"its daemon lives":         {runs: true, fails: worker.ErrHeld},
		"not marked released":      {before: func(_ *testing.T, _ Config, r *worker.Record) { r.Released = false }, says: "not marked released"},
		"issued ahead":             {before: func(_ *testing.T, _ Config, r *worker.Record) { r.Ceiling = r.Ceiling.Add(time.Hour) }, fails: worker.ErrClockRefused},
		"reported ahead":           {before: func(_ *testing.T, _ Config, r *worker.Record) { r.Timestamp = ahead }, fails: worker.ErrClockRefused},
		"a floor ahead":            {before: func(_ *testing.T, _ Config, r *worker.Record) { r.Floor = ahead }, fails: worker.ErrClockRefused},
		"an entry's ceiling ahead": {before: entryHas(func(d *entryData) { d.Ceiling = ahead }), fails: worker.ErrClockRefused},
		"an entry's floor ahead":   {before: entryHas(func(d *entryData) { d.Floor = ahead }), fails: worker.ErrClockRefused},
		"released up to later":     {before: entryHas(func(d *entryData) { d.State, d.Limit = worker.StateReleased, ahead }), fails: worker.ErrClockRefused},
		"a start was cut short":    {before: entryHas(func(d *entryData) { d.State = worker.StateClaiming }), fails: worker.ErrInUse},
		"a former release's": {before: func(t *testing.T, cfg Config, r *worker.Record) {
			r.Instance = ""
			entryHas(func(d *entryData) { d.Instance, d.Limit = "", 0 })(t, cfg, r)
		}, fails: worker.ErrInUse},
		"another instance":         {before: func(_ *testing.T, _ Config, r *worker.Record) { r.Instance = "another" }, fails: worker.ErrHeld},
		"another worker":           {before: func(_ *testing.T, _ Config, r *worker.Record) { r.WorkerID++ }, fails: worker.ErrHeld},
		"a life that it knows not": {before: func(_ *testing.T, _ Config, r *worker.Record) { r.Owner, r.Acked, r.Current = "a", "b", "c" }, fails: worker.ErrHeld},
		"another cluster":          {before: func(_ *testing.T, _ Config, r *worker.Record) { r.Cluster = "another" }, fails: worker.ErrForeign},
		"ZooKeeper lost data":      {before: func(_ *testing.T, _ Config, r *worker.Record) { r.Losses, r.Released = 1, false }, fails: worker.ErrNoCluster},
		"no worker ID is given out": {before: func(t *testing.T, cfg Config, _ *worker.Record) {
			_, err := directory(t, cfg).Recover(bounded(t, patience))
			require.NoError(t, err)
		}, fails: worker.ErrNoCluster},
		"a name that Java can't read": {before: func(t *testing.T, cfg Config, _ *worker.Record) {
			put(t, conn, cfg.Root+"/leaf_forever/leaf-a-0000000009", java)
		}, says: "beside leaf-a-0000000009"},
		"no name at all": {before: func(t *testing.T, cfg Config, _ *worker.Record) {
			put(t, conn, cfg.Root+"/leaf_forever/x", nil)
		}, says: "no entries"},
		"reported since": {since: func(t *testing.T, _ Config, path string) {
			data, _, err := conn.Get(path)
			require.NoError(t, err)
			_, err = conn.Set(path, data, -1)
			require.NoError(t, err)
		}, fails: worker.ErrInUse},
		"another got its worker ID since": {since: func(t *testing.T, cfg Config, _ string) {
			put(t, conn, cfg.Root+"/leaf_forever/10.0.0.9:8080-0000000000", java)
			_, err := conn.Set(cfg.Root+"/leaf_forever", nil, -1) // zkreg.R1
			require.NoError(t, err)
		}, fails: worker.ErrInUse},
		"a loss was noted since": {since: func(t *testing.T, cfg Config, _ string) {
			_, err := directory(t, cfg).Recover(bounded(t, patience))
			require.NoError(t, err)
		}, fails: worker.ErrInUse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := daemonConfig(server, madeRoot(t, server), address)
			r := openRegistry(t, cfg)
			self := fresh(r)
			self.Ceiling = self.Timestamp + 300
			self = claim1(t, r, self)
			self.Released = true
			path := cfg.Root + "/leaf_forever/" + address + "-0000000000"
			if !tc.runs {
				require.NoError(t, r.Close())
			}
			if tc.before != nil {
				tc.before(t, cfg, &self)
			}
			before, _, err := conn.Get(path)
			require.NoError(t, err)
			d := directory(t, cfg)
			m, err := d.FindJava(bounded(t, patience), address)
			require.NoError(t, err)
			require.False(t, m.Open())
			if tc.since != nil {
				tc.since(t, cfg, path)
			}
			until, _ := m.Until(self)
			if left := until.Sub(cfg.Clock.Read().Wall()); left < time.Minute {
				time.Sleep(left + time.Millisecond) // the entry's own ceiling
			}
			err = m.Return(bounded(t, patience), self)
			after, _, getErr := conn.Get(path)
			require.NoError(t, getErr)
			if tc.fails != nil || tc.says != "" {
				require.ErrorContains(t, err, tc.says)
				require.True(t, tc.fails == nil || errors.Is(err, tc.fails), "%v", err)
				require.Equal(t, string(before), string(after), "the entry is as it was")
				return
			}
			require.NoError(t, err)
			require.JSONEq(t, fmt.Sprintf(`{"ip":"10.0.0.5","port":"8080","timestamp":%d}`, until), string(after))
			var was entryData
			require.NoError(t, json.Unmarshal(before, &was))
			require.GreaterOrEqual(t, until, max(was.Ceiling, self.Ceiling), "all that leafd may have issued")
			m, err = d.FindJava(bounded(t, patience), address)
			require.NoError(t, err)
			require.True(t, m.IsJava() && m.Open(), "a Java Leaf starts on it")
			again, err := m.Until(self)
			require.NoError(t, err, "cut short here, the next run sees that it is done")
			require.Equal(t, until, again)
			_, err = conn.Set(path, encode(javaData{"10.0.0.5", "8080", until + 1000}), -1)
			require.NoError(t, err)
			m, err = d.FindJava(bounded(t, patience), address)
			require.NoError(t, err)
			again, err = m.Until(self)
			require.NoError(t, err)
			require.Equal(t, until+1000, again, "a Java Leaf has issued since")
			self.Released = false
			_, err = m.Until(self)
			require.ErrorIs(t, err, worker.ErrHeld, "a Java Leaf wrote over the entry of a leafd that goes on")
		})
	}
}
