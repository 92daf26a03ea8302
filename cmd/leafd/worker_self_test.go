package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/worker"
)

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
		Instance: "instance of 10.0.0.7:8080", Born: m.now().Add(-time.Hour), Limit: m.now().Add(time.Hour), Confirmed: true,
	}
	if change != nil {
		change(&r)
	}
	require.NoError(m.t, opened.Save(r))
	require.NoError(m.t, opened.Close())
	return dir
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
	require.Equal(t, dir, field(t, out, "data directory"))
	require.Equal(t, "c1", field(t, out, "cluster"))
	require.Equal(t, "me", field(t, out, "node"))
	require.Equal(t, "7", field(t, out, "worker ID"))
	require.Equal(t, "41+10+12, epoch 1288834974657", field(t, out, "layout"))
	require.Contains(t, field(t, out, "ceiling"), " (in ")
	require.Contains(t, field(t, out, "last report to ZooKeeper"), " ago)")
	require.Equal(t, "10.0.0.1:8080 10.0.0.2:8080", field(t, out, "peers last seen"))
	require.NotContains(t, out, "ZooKeeper: ")

	got := clitest.FromJSON[cli.SelfJSON](t, r.runWith(nil, "worker", "self", "--data-dir", dir, "-o", "json").OK(t))
	require.Equal(t, dir, got.DataDir)
	require.EqualValues(t, 7, got.Record.WorkerID)
	require.Nil(t, got.Registry)
	require.Empty(t, got.Verdict)
	require.Equal(t, before, snapshot(t, dir), "the directory is left as it is")

	standalone := r.recorded(func(r *worker.Record) {
		*r = worker.Record{Node: r.Node, WorkerID: r.WorkerID, Layout: r.Layout, Epoch: r.Epoch, Timestamp: r.Timestamp, Ceiling: r.Ceiling, Owner: r.Owner}
	})
	out = r.runWith(nil, "worker", "self", "--data-dir", standalone).OK(t)
	require.Equal(t, "none: standalone", field(t, out, "cluster"))
	require.NotContains(t, out, "peers")
}

// TestWorkerSelfWhileTheDaemonRuns: the daemon holds the directory, writes the record
// every 3 s, and is not disturbed.
func TestWorkerSelfWhileTheDaemonRuns(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	r := &registryTest{machine: m}
	l := m.ready("--worker-id", "9", "--node", "busy", tune("ReportInterval", "100ms"), tune("CeilingLead", "3s"))
	for range 200 {
		got := clitest.FromJSON[cli.SelfJSON](t, r.runWith(nil, "worker", "self", "--data-dir", m.dataDir(), "-o", "json").OK(t))
		require.EqualValues(t, 9, got.Record.WorkerID)
		require.Equal(t, "busy", got.Record.Node)
	}
	require.Equal(t, 200, l.mustGet("/readyz").status)
	require.Equal(t, cli.ExitOK, l.stop())
	out := r.runWith(nil, "worker", "self", "--data-dir", m.dataDir()).OK(t)
	require.Equal(t, "9", field(t, out, "worker ID"))
}

func TestWorkerSelfWithoutARecord(t *testing.T) {
	t.Parallel()
	r := &registryTest{machine: newMachine(t)}
	self := func(dir string) clitest.Outcome { return r.runWith(nil, "worker", "self", "--data-dir", dir) }

	missing := filepath.Join(t.TempDir(), "data")
	self(missing).Failed(t, cli.ExitFailure, "no daemon has recorded anything there", missing, "check --data-dir")
	require.NoDirExists(t, missing)
	empty := t.TempDir()
	self(empty).Failed(t, cli.ExitFailure, "no daemon has recorded anything there", empty)
	files, err := os.ReadDir(empty)
	require.NoError(t, err)
	require.Empty(t, files)

	dir := r.recorded(nil)
	record := filepath.Join(dir, "worker.json")
	intact, err := os.ReadFile(record)
	require.NoError(t, err)
	for name, damage := range map[string]func() error{
		"cut":         func() error { return os.WriteFile(record, intact[:100], 0o600) },
		"empty":       func() error { return os.WriteFile(record, nil, 0o600) },
		"large":       func() error { return os.WriteFile(record, make([]byte, 1<<20), 0o600) },
		"gone":        func() error { return os.Remove(record) },
		"a directory": func() error { return os.Mkdir(record, 0o700) },
	} {
		require.NoError(t, os.RemoveAll(record))
		if name != "a directory" {
			require.NoError(t, os.WriteFile(record, intact, 0o600))
		}
		require.NoError(t, damage())
		out := self(dir)
		require.Contains(t, out.Stderr, record, name)
		out.Failed(t, cli.ExitFailure, record)
	}
	file := clitest.WriteFile(t, "data", "")
	self(file).Failed(t, cli.ExitFailure, file)
}

func TestWorkerSelfAndTheRegistry(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		entries func(r *registryTest)
		record  func(r *worker.Record)
		verdict string
		says    string
	}{
		{"agrees", func(r *registryTest) { r.entry(7, "me", r.reported("10.0.0.7:8080", 0)) }, nil, cli.VerdictAgrees, "agrees"},
		{
			"agrees, by another name", func(r *registryTest) { r.entry(7, "you", r.piece("10.0.0.7:8080", 0, time.Hour)) },
			nil, cli.VerdictAgrees, "agrees",
		},
		{
			"agrees with the life acknowledged last", func(r *registryTest) { r.entry(7, "me", r.piece("10.0.0.7:8080", 0, time.Hour)) },
			func(r *worker.Record) {
				r.Owner, r.Acked = "new", "owner of 10.0.0.7:8080"
			}, cli.VerdictAgrees, "agrees",
		},
		{
			"a copy", func(r *registryTest) { r.entry(7, "me", r.piece("10.0.0.7:8080", 0, time.Hour)) },
			func(r *worker.Record) { r.Owner = "new" }, cli.VerdictOtherOwner, "there is a copy of the directory, or this one is a copy",
		},
		{
			"another of this name", func(r *registryTest) { r.entry(7, "me", r.piece("10.0.0.7:8080", 0, time.Hour)) },
			func(r *worker.Record) { r.Instance = "i" }, cli.VerdictNoEntry, `node "me" has it there, instance instance of 10.0.0.7:8080`,
		},
		{"no entry", func(r *registryTest) { r.entry(6, "you", r.reported("10.0.0.8:8080", 0)) }, nil, cli.VerdictNoEntry, "nobody has it there"},
		{"no root", nil, nil, cli.VerdictNoEntry, "no entry"},
		{"another has the worker ID", func(r *registryTest) { r.entry(7, "you", r.reported("10.0.0.8:8080", 0)) }, nil, cli.VerdictNoEntry, `node "you" has it there`},
		{"another worker ID", func(r *registryTest) { r.entry(8, "me", r.reported("10.0.0.7:8080", 0)) }, nil, cli.VerdictOtherWorker, "this data directory has worker ID 8 there, not 7"},
		{
			"two worker IDs", func(r *registryTest) {
				r.entry(6, "me", r.reported("10.0.0.7:8080", 0))
				r.entry(7, "me", r.reported("10.0.0.7:8080", 0))
				r.entry(8, "me", r.reported("10.0.0.7:8080", 0))
			}, nil, cli.VerdictAgrees, "agrees",
		},
		{"another process", func(r *registryTest) {
			z := r.reported("10.0.0.7:8080", 0)
			z.Owner = "another"
			r.entry(7, "me", z)
		}, nil, cli.VerdictOtherOwner, "written by a process that this data directory doesn't know"},
		{
			"released", func(r *registryTest) {
				z := r.reported("10.0.0.7:8080", 0)
				z.State = "released"
				r.entry(7, "me", z)
			}, nil, cli.VerdictReleased, "released",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRegistryTest(t)
			if tc.entries != nil {
				tc.entries(r.tree())
			}
			dir := r.recorded(tc.record)
			out := r.run("worker", "self", "--data-dir", dir).OK(t)
			require.Contains(t, field(t, out, "ZooKeeper"), tc.says)
			got := clitest.FromJSON[cli.SelfJSON](t, r.run("worker", "self", "--data-dir", dir, "-o", "json").OK(t))
			require.Equal(t, tc.verdict, got.Verdict)
			require.Equal(t, tc.verdict == cli.VerdictNoEntry, got.Registry == nil)
		})
	}
	t.Run("ZooKeeper down", func(t *testing.T) {
		t.Parallel()
		r := &registryTest{machine: newMachine(t)}
		dir := r.recorded(nil)
		args := []string{"worker", "self", "--data-dir", dir, "--zk=127.0.0.1:1", "--timeout=300ms"}
		out := r.runWith(nil, args...)
		require.Equal(t, cli.ExitFailure, out.Code)
		require.Equal(t, "7", field(t, out.Stdout, "worker ID"), "what is known is shown")
		require.Contains(t, out.Stderr, "ZooKeeper at 127.0.0.1:1")
		out = r.runWith(nil, append(args, "-o", "json")...)
		require.Equal(t, cli.ExitFailure, out.Code)
		require.Equal(t, cli.VerdictNotKnown, clitest.FromJSON[cli.SelfJSON](t, out.Stdout).Verdict)
	})
}
