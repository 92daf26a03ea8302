package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/worker"
)

// selfFloor is where the piece of these records begins.
const selfFloor = clock.Millis(1_700_000_000_000)

// recorded puts a record into a new data directory, and returns the directory.
func (m *machine) recorded(change func(r *worker.Record)) string {
	m.t.Helper()
	dir := filepath.Join(m.t.TempDir(), "data")
	opened, err := cache.Open(dir)
	require.NoError(m.t, err)
	r := worker.Record{
		Cluster: "c1", Node: "me", WorkerID: 7, Layout: "41+10+12", Epoch: snowflake.DefaultEpoch,
		Timestamp: m.now().Add(-2 * time.Second), Ceiling: m.now().Add(time.Minute), Owner: "owner of 10.0.0.7:8080",
		Registered: m.now().Add(-3 * time.Second), Peers: []string{"10.0.0.1:8080", "10.0.0.2:8080"},
		Instance: "instance of 10.0.0.7:8080", Born: m.now().Add(-time.Hour), State: worker.RecordActive,
		Floor: selfFloor, Limit: m.now().Add(time.Hour), AckedLimit: m.now().Add(time.Hour), LongestLease: worker.DefaultLease,
		Acked: worker.Life{Owner: "owner of 10.0.0.7:8080", Number: 12}, Current: worker.Life{Owner: "owner of 10.0.0.7:8080", Number: 12},
	}
	if change != nil {
		change(&r)
	}
	require.NoError(m.t, opened.Save(r))
	require.NoError(m.t, opened.Close())
	return dir
}

// recorded is of a record that was made in r's root.
func (r *registryTest) recorded(change func(r *worker.Record)) string {
	r.t.Helper()
	return r.machine.recorded(func(record *worker.Record) {
		record.Root, record.Forever = r.root, r.root+"/leaf_forever"
		if change != nil {
			change(record)
		}
	})
}

// snapshot returns every file of a directory with its content and its time of change.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		st, err := e.Info()
		require.NoError(t, err)
		files[e.Name()] = st.ModTime().String() + string(raw)
	}
	return files
}

func TestWorkerSelfByTheLocalRecord(t *testing.T) {
	t.Parallel()
	r := &registryTest{machine: newMachine(t)}
	dir := r.recorded(nil)
	before := snapshot(t, dir)
	out := r.runWith(nil, "worker", "self", "--data-dir", dir).OK(t)
	for name, is := range map[string]string{
		"data_dir": dir, "record.cluster": "c1", "record.node": "me", "record.worker_id": "7", "record.layout": "41+10+12", "record.peers": "10.0.0.1:8080 10.0.0.2:8080",
	} {
		require.Equal(t, is, field(t, out, name))
	}
	require.Contains(t, field(t, out, "record.ceiling"), " (in ")
	require.NotContains(t, out, "registry.")
	got := clitest.FromJSON[cli.SelfJSON](t, r.runWith(nil, "worker", "self", "--data-dir", dir, "-o", "json").OK(t))
	require.EqualValues(t, 7, got.Record.WorkerID)
	require.Nil(t, got.Registry)
	require.Equal(t, before, snapshot(t, dir), "the directory is left as it is")
}

func TestWorkerSelfWithoutARecord(t *testing.T) {
	t.Parallel()
	r := &registryTest{machine: newMachine(t)}
	self := func(dir string) clitest.Outcome { return r.runWith(nil, "worker", "self", "--data-dir", dir) }
	missing := filepath.Join(t.TempDir(), "data")
	self(missing).Failed(t, cli.ExitFailure, "no daemon has recorded anything there", missing, "check --data-dir")
	require.NoDirExists(t, missing)
	dir := r.recorded(nil)
	record := filepath.Join(dir, "worker.json")
	require.NoError(t, os.Truncate(record, 100))
	self(dir).Failed(t, cli.ExitFailure, record)
}

func TestWorkerSelfAndTheRegistry(t *testing.T) {
	t.Parallel()
	// own is the entry that the record goes with.
	own := func(change func(z *znode)) func(r *registryTest) {
		return func(r *registryTest) {
			z := r.piece("10.0.0.7:8080", 0, 2*time.Hour) // the last report's; the record may be of the one before
			z.Node, z.Floor = "me", selfFloor
			if change != nil {
				change(&z)
			}
			r.entry(7, z.Node, z)
		}
	}
	ended := func(r *worker.Record) { r.Limit, r.AckedLimit = r.Timestamp, r.Timestamp }
	standalone := func(r worker.Record) worker.Record {
		return worker.Record{Node: r.Node, WorkerID: r.WorkerID, Layout: r.Layout, Epoch: r.Epoch, Timestamp: r.Timestamp, Ceiling: r.Ceiling, Owner: r.Owner}
	}
	for _, tc := range []struct {
		name    string
		entries func(r *registryTest) // nil: no root
		record  func(r *worker.Record)
		verdict inspect.Verdict
		says    string
	}{
		{"agrees", own(nil), nil, inspect.Agrees, "agrees"},
		{"agrees with the life acknowledged last", own(nil), func(r *worker.Record) { r.Owner, r.Current = "new", worker.Life{Owner: "new", Number: 13} }, inspect.Agrees, "agrees"},
		{"a life that nobody knows", own(func(z *znode) { z.Owner, z.Life = "another", 13 }), nil, inspect.Copied, "there is a copy of the directory, or this one is a copy"},
		{"older", own(func(z *znode) { z.Owner, z.Life, z.Limit = "another", 11, z.Timestamp }), nil, inspect.Lost, "the daemon puts worker ID 7 back while its limit lies ahead"},
		{"no entry", func(r *registryTest) { r.entry(6, "you", r.reported("10.0.0.8:8080", 0)) }, nil, inspect.Lost, "the daemon puts worker ID 7 back"},
		{"no entry, and it has ended", func(*registryTest) {}, ended, inspect.Lost, "has lost what it had acknowledged"},
		{"no root", nil, nil, inspect.Lost, "has lost what it had acknowledged"},
		{"no root, and no cluster of ours", nil, func(r *worker.Record) { *r = standalone(*r) }, inspect.NoCluster, "there is no cluster yet"},
		{"standalone", own(nil), func(r *worker.Record) { *r = standalone(*r) }, inspect.NoWorkerID, "no worker ID of a cluster"},
		{"another has it", func(r *registryTest) {
			z := r.reported("10.0.0.8:8080", 0)
			z.Floor, z.Limit = r.now().Add(2*time.Hour), r.now().Add(3*time.Hour)
			r.entry(7, "you", z)
		}, nil, inspect.Taken, `node "you" has it, instance instance of 10.0.0.8:8080`},
		{"ended", own(nil), ended, inspect.Ended, "its limit has passed, or passes soon"},
		{"released by an operator", own(func(z *znode) { z.State = "released" }), nil, inspect.Released, "released by an operator"},
		{"released", own(func(z *znode) { z.State = "released" }), func(r *worker.Record) { r.State = worker.RecordReleased }, inspect.Released, "given back at the last stop"},
		{"claiming", own(func(z *znode) { z.State, z.Limit = "claiming", z.Floor }), func(r *worker.Record) {
			r.State, r.Limit, r.AckedLimit = worker.RecordClaiming, r.Floor, r.Floor
		}, inspect.Claiming, "nothing is issued under it yet"},
		{"another cluster", own(nil), func(r *worker.Record) { r.Cluster = "c2" }, inspect.OtherCluster, "the root is of another cluster, c1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRegistryTest(t)
			if tc.entries != nil {
				tc.entries(r.tree())
			}
			dir := r.recorded(tc.record)
			out := r.run("worker", "self", "--data-dir", dir).OK(t)
			require.Contains(t, field(t, out, "message"), tc.says)
			got := clitest.FromJSON[cli.SelfJSON](t, r.run("worker", "self", "--data-dir", dir, "-o", "json").OK(t))
			require.Equal(t, tc.verdict, got.Verdict)
			stands := false
			if tc.entries != nil && got.Record.Cluster != "" {
				stands = slices.Contains(newOnlooker(t, r.server, r.root).entries(), entryName(7))
			}
			require.Equal(t, stands, got.Registry != nil)
		})
	}
	t.Run("ZooKeeper down", func(t *testing.T) {
		t.Parallel()
		r := &registryTest{machine: newMachine(t)}
		dir := r.recorded(nil)
		args := []string{"worker", "self", "--data-dir", dir, "--zk=127.0.0.1:1", "--timeout=300ms"}
		out := r.runWith(nil, args...)
		require.Equal(t, cli.ExitFailure, out.Code)
		require.Equal(t, "7", field(t, out.Stdout, "record.worker_id"), "what is known is shown")
		require.Contains(t, out.Stderr, "ZooKeeper at 127.0.0.1:1")
		out = r.runWith(nil, append(args, "-o", "json")...)
		require.Equal(t, cli.ExitFailure, out.Code)
		require.Equal(t, inspect.NotKnown, clitest.FromJSON[cli.SelfJSON](t, out.Stdout).Verdict)
	})
}
