package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
)

// impatient is a machine's clock for who has no time to watch a Java Leaf.
type impatient struct{ clock.Clock }

func (impatient) Sleep(context.Context, time.Duration) error { return nil }

// move runs leafd worker adopt or return on a machine that hosted a Java Leaf.
func (o *onlooker) move(c *cluster, m *machine, verb string, args ...string) clitest.Outcome {
	o.t.Helper()
	var stdout, stderr bytes.Buffer
	args = slices.Concat([]string{
		"worker", verb, m.addr, "--zk", strings.Join(c.servers, ","), "--zk-root", c.root, "--zk-forever-path", o.forever, "--data-dir", m.dataDir(), "--java-tmpdir", m.dir,
	}, args)
	code := cli.Run(o.t.Context(), cli.Process{Args: args, Stdout: &stdout, Stderr: &stderr, Clock: impatient{m.clk}})
	return clitest.Outcome{Code: code, Stdout: stdout.String(), Stderr: stderr.String()}
}

// moved is the output of a move.
func (o *onlooker) moved(c *cluster, m *machine, verb string, args ...string) cli.MoveJSON {
	o.t.Helper()
	return clitest.FromJSON[cli.MoveJSON](o.t, o.move(c, m, verb, append(args, "-o", "json")...).OK(o.t))
}

// javaFile makes the file with which a Java Leaf of this machine starts without ZooKeeper.
func (o *onlooker) javaFile(m *machine) string {
	o.t.Helper()
	file := filepath.Join(m.dir, strings.Split(o.forever, "/")[2], "leafconf", m.addr[strings.LastIndexByte(m.addr, ':')+1:], "workerID.properties")
	require.NoError(o.t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(o.t, os.WriteFile(file, []byte("workerID=3"), 0o600))
	return file
}

// What leafd worker adopt does, and refuses, before leafd's first start.
func TestWorkerAdopt(t *testing.T) {
	t.Parallel()
	c := unmade(t)
	o := c.watch()
	m := c.machine()
	o.javaTree("com.x.adopt"+strings.TrimPrefix(c.root, "/"), "10.0.0.1:8080", m.addr)
	c.init("--zk-forever-path", o.forever)
	file := o.javaFile(m)
	path := o.forever + "/" + m.addr + "-0000000001"
	before := o.must(path)
	plan := o.moved(c, m, "adopt", "--dry-run")
	require.Equal(t, int64(1), plan.WorkerID)
	require.True(t, plan.DryRun && !plan.Changed)
	require.FileExists(t, file)
	require.Equal(t, before, o.must(path), "a dry run writes nothing")

	listener, err := net.Listen("tcp", m.addr)
	require.NoError(t, err)
	o.move(c, m, "adopt").Failed(t, cli.ExitHeld, "something answers at "+m.addr)
	require.NoError(t, listener.Close())
	o.move(c, m, "adopt", "--zk-forever-path", "/elsewhere").Failed(t, cli.ExitUsage, "/snowflake/NAME/forever")
	used := m.recorded(nil)
	o.move(c, m, "adopt", "--data-dir", used).Failed(t, cli.ExitFailure, "has the record of worker 7")
	require.Equal(t, before, o.must(path))

	text := o.move(c, m, "adopt").OK(t)
	for _, says := range []string{"delete " + file, "close the entry", "systemctl disable UNIT", "leafd doctor --zk ", "leafd serve --zk ", "--node " + m.addr, "--data-dir " + m.dataDir()} {
		require.Contains(t, text, says)
	}
	require.NoFileExists(t, file)
	require.NoDirExists(t, filepath.Dir(file), "a Java Leaf writes its file only where it makes the directory")
	require.False(t, o.moved(c, m, "adopt").Changed, "there is nothing left to do")
	require.NotEqual(t, before.text, o.must(path).text)
	require.True(t, o.moved(c, m, "return").Changed, "no leafd has started")
	require.Equal(t, before.text, o.must(path).text)
}

// cli.M1 to M3: leafd worker return after leafd ran, and each thing in its way.
func TestWorkerReturn(t *testing.T) {
	t.Parallel()
	c := unmade(t)
	o := c.watch()
	m := c.machine()
	o.javaTree("com.x.return" + strings.TrimPrefix(c.root, "/"))
	c.init("--zk-forever-path", o.forever)
	settings := append(frequent(), "--zk-forever-path", o.forever)
	l := m.ready(settings...)
	path := o.forever + "/" + m.addr + "-0000000000"
	o.move(c, m, "return").Failed(t, cli.ExitHeld, "something answers at "+m.addr)
	o.move(c, m, "return", "--java-http", freeAddress(t)).Failed(t, cli.ExitHeld, "is in use")
	all := l.batch("/api/snowflake/get/a?n=1000")
	require.Equal(t, cli.ExitOK, l.stop())
	last := timeOf(t, slices.Max(all))

	before, files := o.must(path), snapshot(t, m.dataDir())
	file := o.javaFile(m)
	o.move(c, m, "return").Failed(t, cli.ExitFailure, file)
	require.NoError(t, os.Remove(file))
	plan := o.moved(c, m, "return", "--dry-run")
	require.True(t, plan.DryRun && !plan.Changed)
	require.Equal(t, files, snapshot(t, m.dataDir()))
	m.step(-time.Hour)
	o.move(c, m, "return").Failed(t, cli.ExitClock, "of worker 0 up to", "--timeout")
	m.step(time.Hour)
	copied := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(m.dataDir())))
	o.move(c, m, "return", "--data-dir", copied).Failed(t, cli.ExitHeld, "another data directory")
	o.move(c, m, "return", "--data-dir", t.TempDir()).Failed(t, cli.ExitHeld, "no entry of this data directory's")
	require.Equal(t, before, o.must(path))

	m.step(-8 * time.Second) // it waits, but in vain: this clock is impatient
	o.move(c, m, "return").Failed(t, cli.ExitClock, "rewrite the entry")
	m.step(8 * time.Second)
	require.Equal(t, before, o.must(path))
	record, err := cache.Peek(m.dataDir())
	require.NoError(t, err)
	require.True(t, record.Released, "cut short between file and entry")
	require.True(t, o.moved(c, m, "return").Changed, "it goes on")
	_, own := o.javaReader(m.addr)
	require.Greater(t, own.Timestamp, last)
	require.JSONEq(t, jsonText(t, endpoint{own.IP, own.Port, own.Timestamp}), o.must(path).text, "no field that a Java Leaf doesn't know")
	require.False(t, o.moved(c, m, "return").Changed, "there is nothing left to do")
	_, err = cache.Peek(m.dataDir())
	require.ErrorIs(t, err, worker.ErrNoRecord, "the record was set aside")
	require.True(t, o.moved(c, m, "adopt").Changed, "and leafd can have it again")
}

// The daemon runs on, cut off from ZooKeeper, which knows of no session of it any more, while
// somebody gives its worker ID to a Java Leaf, or takes it for one: from its data directory, from
// a copy of that, from an empty one, and after a Java Leaf has written over its entry.
func TestWorkerMovedWhileCutOff(t *testing.T) {
	t.Parallel()
	c := unmade(t)
	o := c.watch()
	line := zookeepertest.NewProxy(t, c.servers[0])
	m := c.behind(line)
	o.javaTree("com.x.cutoff" + strings.TrimPrefix(c.root, "/"))
	c.init("--zk-forever-path", o.forever)
	l := m.ready(append(frequent(), "--zk-forever-path", o.forever)...)
	path := o.forever + "/" + m.addr + "-0000000000"
	line.Down(t)
	require.Eventually(t, func() bool { return len(o.live()) == 0 }, eventually, tick, "its session is over")
	all := l.batch("/api/snowflake/get/a?n=1000")

	before := o.must(path)
	copied := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(m.dataDir())))
	deaf := []string{"--java-http", freeAddress(t)} // somebody names another address than the daemon's
	for _, verb := range []string{"adopt", "return"} {
		o.move(c, m, verb).Failed(t, cli.ExitHeld, "something answers at "+m.addr)
		o.move(c, m, verb, append(deaf, "--data-dir", t.TempDir())...).Failed(t, cli.ExitHeld, path)
	}
	o.move(c, m, "return", deaf...).Failed(t, cli.ExitHeld, "is in use")
	o.move(c, m, "return", append(deaf, "--data-dir", copied)...).Failed(t, cli.ExitHeld, "another data directory")
	require.Equal(t, before, o.must(path))

	o.set(path, javaEntry(t, m.addr, clock.MillisOf(time.Now())))
	for _, verb := range []string{"adopt", "return"} {
		o.move(c, m, verb).Failed(t, cli.ExitHeld, "something answers at "+m.addr)
	}
	o.move(c, m, "return", deaf...).Failed(t, cli.ExitHeld, "is in use")
	requireDistinct(t, slices.Concat(all, l.batch("/api/snowflake/get/a?n=1000")))
}
