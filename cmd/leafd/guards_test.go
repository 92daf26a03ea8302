package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
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

// The guards_*_test.go files hold a test for every row of DESIGN 4, on real
// daemons on machines with a clock of their own each, and a real ZooKeeper.

// guards is a cluster with znodes that a test looks at, and makes.
type guards struct {
	*cluster

	read   func(path string) (data string, at written, found bool)
	list   func(path string) []string
	create func(path, data string, flags int32)
}

// written tells when a znode was.
type written struct {
	version int32
	mzxid   int64
}

func newGuards(t *testing.T) *guards {
	t.Helper()
	conn := zookeepertest.Shared(t).Conn(t)
	exists := func(path string) bool {
		found, _, err := conn.Exists(path)
		require.NoError(t, err)
		return found
	}
	return &guards{
		cluster: onShared(t),
		read: func(path string) (string, written, bool) {
			if !exists(path) {
				return "", written{}, false
			}
			data, stat, err := conn.Get(path)
			if err != nil && !exists(path) { // gone meanwhile
				return "", written{}, false
			}
			require.NoError(t, err)
			return string(data), written{stat.Version, stat.Mzxid}, true
		},
		list: func(path string) []string {
			if !exists(path) {
				return nil
			}
			names, _, err := conn.Children(path)
			require.NoError(t, err)
			return names
		},
		create: func(path, data string, flags int32) {
			acl, _, err := conn.GetACL("/")
			require.NoError(t, err)
			_, err = conn.Create(path, []byte(data), flags, acl)
			require.NoError(t, err, path)
		},
	}
}

// often makes reports frequent; a busy machine may miss some.
func often(more ...string) []string {
	return append([]string{tune("ReportInterval", "500ms"), tune("CeilingLead", "3s")}, more...)
}

// machine returns a machine that looks at its peers often, too.
func (g *guards) machine(args ...string) *machine {
	g.t.Helper()
	m := g.cluster.machine(args...)
	m.peers = 300 * time.Millisecond
	return m
}

// behindProxy returns a machine that ZooKeeper can be taken from.
func (g *guards) behindProxy(args ...string) (*machine, *zookeepertest.Proxy) {
	g.t.Helper()
	p := zookeepertest.NewProxy(g.t, g.servers[0])
	behind := *g
	behind.cluster = &cluster{t: g.t, servers: []string{p.Addr()}, root: g.root}
	return behind.machine(args...), p
}

// inZooKeeper is an entry as it stands there.
type inZooKeeper struct {
	name string
	written

	Node      string       `json:"node"`
	Timestamp clock.Millis `json:"timestamp"`
	Ceiling   clock.Millis `json:"ceiling"`
}

// names lists all entries; none while there is no root.
func (g *guards) names() []string { return g.list(g.root + "/leaf_forever") }

// entry returns what ZooKeeper has of a machine's node, which must be one entry.
func (g *guards) entry(m *machine) inZooKeeper {
	g.t.Helper()
	var e inZooKeeper
	for _, name := range g.names() {
		data, at, found := g.read(g.root + "/leaf_forever/" + name)
		require.True(g.t, found)
		var read inZooKeeper
		require.NoError(g.t, json.Unmarshal([]byte(data), &read), data)
		if read.Node != m.addr {
			continue
		}
		require.Empty(g.t, e.name, "a second entry")
		e = read
		e.name, e.written = name, at
	}
	require.NotEmpty(g.t, e.name, "the node has no entry")
	return e
}

// live tells whether a machine's daemon is in leaf_temporary.
func (g *guards) live(m *machine) bool {
	return slices.ContainsFunc(g.list(g.root+"/leaf_temporary"), func(name string) bool { return strings.HasPrefix(name, m.addr+"~") })
}

func (g *guards) awaitAmongLive(m *machine, want bool) {
	g.t.Helper()
	require.Eventually(g.t, func() bool { return g.live(m) == want }, eventually, 10*time.Millisecond, "%s in leaf_temporary: %v", m.addr, want)
}

// file returns the local record's bytes; nil when there is none.
func (g *guards) file(m *machine) []byte {
	g.t.Helper()
	data, err := os.ReadFile(filepath.Join(m.dataDir(), "worker.json"))
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(g.t, err)
	}
	return data
}

// record returns the local record; the zero value when there is none. A daemon may
// be ready before it is written: ZooKeeper has the ceiling then.
func (g *guards) record(m *machine) worker.Record {
	g.t.Helper()
	r, err := cache.Peek(m.dataDir())
	if !errors.Is(err, worker.ErrNoRecord) {
		require.NoError(g.t, err)
	}
	return r
}

// setClock makes a machine's clock show at.
func (g *guards) setClock(m *machine, at clock.Millis) { m.step(at.Sub(m.now())) }

// refuses starts a daemon that the clock guards must not let start: exit 3, the
// alarm, and nothing written anywhere.
func (g *guards) refuses(m *machine, says string, args ...string) *child {
	g.t.Helper()
	type everything struct {
		names []string
		entry inZooKeeper
		file  string
	}
	look := func() everything {
		all := everything{names: g.names(), file: string(g.file(m))}
		for _, name := range all.names {
			if strings.HasPrefix(name, m.addr+"-") {
				all.entry = g.entry(m)
			}
		}
		return all
	}
	before := look()
	l := m.start(args...)
	select {
	case <-l.Done():
	case <-time.After(eventually):
		require.FailNow(g.t, "it starts", l.Log())
	}
	require.Equal(g.t, cli.ExitClock, l.ExitCode(), l.Log())
	require.True(g.t, l.hasLogged(`"alarm":"clock_refused"`, says), "%q in:\n%s", says, l.Log())
	require.Contains(g.t, l.Log(), `{"level":"fatal","error":"clock refused`)
	require.False(g.t, l.hasLogged("issuing snowflake IDs"), l.Log())
	require.Equal(g.t, before, look(), "a refusal writes nothing")
	return l
}

// run runs a command on a machine, with its clock.
func (g *guards) run(m *machine, args ...string) clitest.Outcome {
	g.t.Helper()
	cmd := exec.Command(os.Args[0], append(args, m.zk[:4]...)...)
	cmd.Env = m.env()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) {
		require.NoError(g.t, err)
	}
	return clitest.Outcome{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
}

// awaitCode waits until path is refused with code.
func (l *child) awaitCode(path, code string) {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return l.mustGet(path).code() == code }, eventually, 20*time.Millisecond, "%s refused with %q", path, code)
}

// alarms returns how often an alarm was raised.
func (l *child) alarms(code string) int {
	return strings.Count(l.Log(), `"alarm":"`+code+`"`)
}

// clockAlarms tells whether any alarm about this machine's clock was raised.
func (l *child) clockAlarms() bool {
	return l.alarms("clock_backwards")+l.alarms("clock_jumped")+l.alarms("clock_refused")+l.alarms("peers_disagree")+l.alarms("peers_undecided") > 0
}
