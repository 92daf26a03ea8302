package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
)

// seenNode is a znode as another client of ZooKeeper sees it.
type seenNode struct {
	text    string
	version int32
	created int64 // transaction that made it
	session int64 // that it goes with; 0: it stays
	changed int64 // ms since 1970, by ZooKeeper's clock
}

// payload is what the znode holds.
func (n seenNode) payload(t *testing.T) znode {
	t.Helper()
	return clitest.FromJSON[znode](t, n.text)
}

// onlooker is another client of ZooKeeper, which sees a cluster's tree as it is,
// and may spoil it.
type onlooker struct {
	t         *testing.T
	root      string
	forever   string // parent of the entries
	temporary string

	get    func(path string) (node seenNode, found bool, err error)
	names  func(path string) []string // of the children, ordered; none where there is no such path
	make   func(path, text string, flags int32) (created string, err error)
	write  func(path, text string, version int32) error // -1: of any version
	remove func(path string)
	auth   func(userPassword string)
}

// persistentSequential is the flag of ZooKeeper's protocol for a znode that gets a
// number behind its name.
const persistentSequential = 2

// flagEphemeral is that of a temporary node.
const flagEphemeral = 1

func newOnlooker(t *testing.T, server *zookeepertest.Server, root string) *onlooker {
	t.Helper()
	conn := server.Conn(t)
	o := &onlooker{t: t, root: root, forever: root + "/leaf_forever", temporary: root + "/leaf_temporary"}
	o.get = func(path string) (seenNode, bool, error) {
		found, _, err := conn.Exists(path)
		if err != nil || !found {
			return seenNode{}, false, err
		}
		data, stat, err := conn.Get(path)
		if err != nil {
			return seenNode{}, true, err
		}
		return seenNode{text: string(data), version: stat.Version, created: stat.Czxid, session: stat.EphemeralOwner, changed: stat.Mtime}, true, nil
	}
	o.names = func(path string) []string {
		t.Helper()
		if found, _, err := conn.Exists(path); err == nil && !found {
			return nil
		}
		children, _, err := conn.Children(path)
		require.NoError(t, err)
		slices.Sort(children)
		return children
	}
	open, _, err := conn.GetACL("/")
	require.NoError(t, err)
	o.make = func(path, text string, flags int32) (string, error) {
		return conn.Create(path, []byte(text), flags, open)
	}
	o.write = func(path, text string, version int32) error {
		_, err := conn.Set(path, []byte(text), version)
		return err
	}
	o.remove = func(path string) {
		t.Helper()
		require.NoError(t, conn.Delete(path, -1), path)
	}
	o.auth = func(userPassword string) {
		t.Helper()
		require.NoError(t, conn.AddAuth("digest", []byte(userPassword)))
	}
	return o
}

// watch is an onlooker on a cluster of onShared's.
func (c *cluster) watch() *onlooker {
	c.t.Helper()
	return newOnlooker(c.t, zookeepertest.Shared(c.t), c.root)
}

// tree is an onlooker on the cluster through s, with a connection of its own.
func (c *cluster) tree(s *zookeepertest.Server) *onlooker {
	c.t.Helper()
	return newOnlooker(c.t, s, c.root)
}

// removeAll does what deleteall of ZooKeeper's own command line does: one znode
// after the other, those below first.
func (o *onlooker) removeAll(path string) {
	o.t.Helper()
	for _, name := range o.names(path) {
		o.removeAll(path + "/" + name)
	}
	o.remove(path)
}

// cluster returns the ID of the cluster.
func (o *onlooker) cluster() string {
	o.t.Helper()
	var root seenNode
	require.Eventually(o.t, func() bool { // the daemon that makes it again fills it a moment later
		root, _, _ = o.get(o.root)
		return root.text != ""
	}, eventually, 10*time.Millisecond, "the root")
	return clitest.FromJSON[struct{ Cluster string }](o.t, root.text).Cluster
}

// settled waits until ZooKeeper has a report from now on of a daemon's life, and its temporary node.
func (o *onlooker) settled(m *machine, l *child) {
	o.t.Helper()
	me, since := l.info(), m.now()
	require.Eventually(o.t, func() bool {
		node, found, err := o.get(o.path(me.ID))
		if err != nil || !found || node.text == "" {
			return false
		}
		z := node.payload(o.t)
		return z.Owner == me.Owner && z.State == "active" && z.Timestamp > since && z.Ceiling > z.Timestamp && slices.Contains(o.live(), m.addr)
	}, 2*eventually, tick, "a report of %s, worker %d", m.addr, me.ID)
}

// requirePutBack requires that ZooKeeper names the cluster that was, which has lost its
// data that often, and that the machines' local records have it.
func requirePutBack(t *testing.T, look *onlooker, was string, losses int64, machines ...*machine) {
	t.Helper()
	require.Equal(t, was, look.cluster())
	for _, m := range machines {
		require.Eventually(t, func() bool {
			r := recordOf(t, m)
			return r.Cluster == was && r.Losses == losses
		}, eventually, tick, "%d losses in %s's worker.json", losses, m.addr)
	}
}

// must returns a znode that has to be there.
func (o *onlooker) must(path string) seenNode {
	o.t.Helper()
	node, found, err := o.get(path)
	require.NoError(o.t, err, path)
	require.True(o.t, found, path)
	return node
}

func (o *onlooker) entries() []string { o.t.Helper(); return o.names(o.forever) }

// path is the only one of a worker ID.
func (o *onlooker) path(workerID int64) string { return o.forever + "/" + entryName(workerID) }

func entryName(workerID int64) string { return fmt.Sprintf("worker-%010d", workerID) }

// live returns the addresses of the live set, ordered.
func (o *onlooker) live() []string {
	o.t.Helper()
	addresses := o.names(o.temporary)
	for i, name := range addresses {
		addresses[i], _, _ = strings.Cut(name, "~")
	}
	return addresses
}

// livePath is the temporary node of a daemon.
func (o *onlooker) livePath(l *child) string {
	o.t.Helper()
	return o.temporary + "/" + l.addr + "~" + l.info().Instance
}

// takeAway gives workerID to another instance.
func (o *onlooker) takeAway(workerID int64) {
	o.t.Helper()
	o.change(o.path(workerID), func(was seenNode) string {
		var fields map[string]any
		require.NoError(o.t, json.Unmarshal([]byte(was.text), &fields))
		fields["instance"], fields["owner"] = uuid.NewString(), uuid.NewString()
		return jsonText(o.t, fields)
	})
}

func (o *onlooker) create(path, text string, flags int32) string {
	o.t.Helper()
	created, err := o.make(path, text, flags)
	require.NoError(o.t, err, path)
	return created
}

func (o *onlooker) set(path, text string) {
	o.t.Helper()
	require.NoError(o.t, o.write(path, text, -1), path)
}

// change writes what is made of what stands there, and of nothing older: with the limit of a
// report before the last, an entry is one that ZooKeeper lost.
func (o *onlooker) change(path string, to func(was seenNode) string) {
	o.t.Helper()
	for {
		was := o.must(path)
		err := o.write(path, to(was), was.version)
		if err == nil {
			return
		}
		require.NotEqual(o.t, was.version, o.must(path).version, err)
	}
}

// inFlight is how many requests an onlooker sends at once where there are many.
const inFlight = 16

// each calls do for 0 to n-1, some at a time.
func (o *onlooker) each(n int, do func(i int) error) {
	o.t.Helper()
	errs := make([]error, n)
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(inFlight, n) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				errs[i] = do(int(i))
			}
		})
	}
	group.Wait()
	require.NoError(o.t, errors.Join(errs...))
}

// everything is the data of the whole tree, by path.
func (o *onlooker) everything() map[string]string {
	o.t.Helper()
	paths := []string{o.root, o.forever, o.temporary}
	for _, parent := range []string{o.forever, o.temporary} {
		for _, name := range o.names(parent) {
			paths = append(paths, parent+"/"+name)
		}
	}
	all := map[string]string{}
	for _, path := range paths {
		all[path] = o.must(path).text
	}
	return all
}

// sessions is ZooKeeper's own list of the sessions that it holds open.
func sessions(t *testing.T, server string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", server, 10*time.Second)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte("dump"))
	require.NoError(t, err)
	text, err := io.ReadAll(conn)
	require.NoError(t, err)
	return string(text)
}

// frequent makes reports frequent, as quick does, with a ceiling that a busy machine
// keeps up with.
func frequent() []string { return []string{tune("ReportInterval", "300ms"), tune("CeilingLead", "1s")} }

// steady is frequent for daemons that must refuse nothing, however busy the machine is.
func steady() []string { return []string{tune("ReportInterval", "300ms"), tune("CeilingLead", "4s")} }

// onMachine runs a command on the cluster with a machine's clock.
func (c *cluster) onMachine(m *machine, args ...string) clitest.Outcome {
	c.t.Helper()
	var stdout, stderr bytes.Buffer
	args = slices.Concat(args, []string{"--zk", strings.Join(c.servers, ","), "--zk-root", c.root})
	if !slices.Contains(args, "--timeout") {
		args = append(args, "--timeout", "60s") // a busy machine's ZooKeeper takes longer than the default
	}
	code := cli.Run(c.t.Context(), cli.Process{Args: args, Stdout: &stdout, Stderr: &stderr, Clock: m.clk})
	return clitest.Outcome{Code: code, Stdout: stdout.String(), Stderr: stderr.String()}
}

// exits waits until the process ends by itself, with that code.
func (l *child) exits(code int, what ...any) {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		select {
		case <-l.Done():
			return true
		default:
			return false
		}
	}, 60*time.Second, 5*time.Millisecond, what...)
	require.Equal(l.t, code, l.ExitCode(), what...)
}

// batch asks for n IDs and wants them.
func (l *child) batch(path string) []int64 {
	l.t.Helper()
	list, err := ids(l.awaitStatus(path, 200).body)
	require.NoError(l.t, err)
	require.NotEmpty(l.t, list)
	return list
}

// flows waits until a load has got n more IDs.
func (ld *load) flows(t *testing.T, n int) {
	t.Helper()
	had := ld.count()
	require.Eventually(t, func() bool { return ld.count() >= had+n }, eventually, time.Millisecond, "%d IDs more", n)
}

// unharmed requires that a load got nothing but IDs, and returns them.
func (ld *load) unharmed(t *testing.T) []int64 {
	t.Helper()
	got := ld.stop()
	require.Empty(t, ld.refused)
	require.Zero(t, ld.failed)
	require.Empty(t, ld.broken)
	return got
}

// jsonText is v as a znode holds it.
func jsonText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// dayLater is how far the clocks of the machines here are ahead of ZooKeeper's, so
// that entries that were only just made have not been reported for a day.
const dayLater = 25 * time.Hour

// laterMachine is a machine of the cluster a day later.
func (c *cluster) laterMachine(args ...string) *machine {
	c.t.Helper()
	m := c.machine(append(frequent(), args...)...)
	m.step(dayLater)
	return m
}

// filled makes a root with n entries, all that its layout has.
func (o *onlooker) filled(layout string, n int) {
	o.t.Helper()
	o.create(o.root, "", 0)
	o.create(o.forever, "", 0)
	o.create(o.temporary, "", 0)
	o.set(o.root, rootText(layout, o.forever, o.must(o.forever).created))
	o.each(n, func(i int) error {
		_, err := o.make(o.path(int64(i)), jsonText(o.t, oldEntry(i)), 0)
		return err
	})
}

// oldEntry is what a daemon that is gone has left.
func oldEntry(i int) znode {
	at := clock.MillisOf(time.Now())
	return znode{
		Node: fmt.Sprintf("old-%d", i), IP: "192.0.2.1", Port: fmt.Sprint(8000 + i), Timestamp: at, Ceiling: at.Add(6 * time.Second), Limit: at.Add(worker.DefaultLease),
		Instance: fmt.Sprintf("instance %d", i), Owner: fmt.Sprintf("owner %d", i), Life: 3, State: "active",
	}
}
