package main

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
)

// registryTest is a cluster in a real ZooKeeper, with entries that a test makes, and
// a machine with the clock that the commands have.
type registryTest struct {
	*machine

	server *zookeepertest.Server
	create func(path string, data []byte, flags int32)
	root   string
}

// newRegistryTest returns one without a znode, on the server of all tests.
func newRegistryTest(t *testing.T) *registryTest {
	t.Helper()
	return registryTestOn(t, zookeepertest.Shared(t))
}

func registryTestOn(t *testing.T, server *zookeepertest.Server) *registryTest {
	t.Helper()
	r := &registryTest{machine: newMachine(t), server: server}
	r.root = r.server.NewRoot(t)
	conn := r.server.Conn(t)
	r.create = func(path string, data []byte, flags int32) {
		t.Helper()
		acl, _, err := conn.GetACL("/")
		require.NoError(t, err)
		_, err = conn.Create(path, data, flags, acl)
		require.NoError(t, err, path)
	}
	return r
}

// tree makes the znodes above the entries, and returns r.
func (r *registryTest) tree() *registryTest {
	r.t.Helper()
	o := newOnlooker(r.t, r.server, r.root)
	r.create(r.root, nil, 0)
	r.create(o.forever, nil, 0)
	r.create(o.temporary, nil, 0)
	o.set(r.root, rootText("41+10+12", o.forever, o.must(o.forever).created))
	return r
}

// rootText is a root that lost nothing; parent is 0 where no parent was recorded yet.
func rootText(layout, forever string, parent int64) string {
	return fmt.Sprintf(`{"cluster":"c1","epoch":1288834974657,"layout":%q,"forever":%q,"parent_czxid":%d,"longest_lease":604800000,"longest_session":6000,"longest_lend":0,"losses":0,"lost_at":0,"floor":0}`, layout, forever, parent)
}

// znode is an entry as a test writes it.
type znode struct {
	IP        string       `json:"ip"`
	Port      string       `json:"port"`
	Timestamp clock.Millis `json:"timestamp"`
	Node      string       `json:"node,omitempty"`
	Ceiling   clock.Millis `json:"ceiling,omitempty"`
	Floor     clock.Millis `json:"floor,omitempty"`
	Limit     clock.Millis `json:"limit,omitempty"`
	Instance  string       `json:"instance,omitempty"`
	Owner     string       `json:"owner,omitempty"`
	Life      int64        `json:"life,omitempty"`
	State     string       `json:"state,omitempty"`
}

// reported is an active entry of a daemon at address that reported ago, with a week's lease.
func (r *registryTest) reported(address string, ago time.Duration) znode {
	r.t.Helper()
	ip, port, err := net.SplitHostPort(address)
	require.NoError(r.t, err)
	at := r.now().Add(-ago)
	return znode{
		IP: ip, Port: port, Timestamp: at, Ceiling: at.Add(6 * time.Second), Floor: at.Add(-time.Hour), Limit: at.Add(worker.DefaultLease),
		Instance: "instance of " + address, Owner: "owner of " + address, Life: 12, State: "active",
	}
}

// piece is reported with a piece that ends limit from now.
func (r *registryTest) piece(address string, ago, limit time.Duration) znode {
	r.t.Helper()
	z := r.reported(address, ago)
	z.Limit = r.now().Add(limit)
	return z
}

// entry makes the entry of a worker ID.
func (r *registryTest) entry(id int64, node string, z znode) {
	r.t.Helper()
	z.Node = node
	r.create(r.root+"/leaf_forever/"+entryName(id), []byte(jsonText(r.t, z)), 0)
}

// javaEntry makes the entry of a Java Leaf that reported ago.
func (r *registryTest) javaEntry(id int64, address string, ago time.Duration) {
	r.t.Helper()
	r.create(fmt.Sprintf("%s/leaf_forever/%s-%010d", r.root, address, id), []byte(javaEntry(r.t, address, r.now().Add(-ago))), 0)
}

// live makes the instance of a reported entry live.
func (r *registryTest) live(address string) {
	r.t.Helper()
	r.liveAs(address, "instance of "+address)
}

func (r *registryTest) liveAs(address, instance string) {
	r.t.Helper()
	r.create(r.root+"/leaf_temporary/"+address+"~"+instance, []byte("owner of "+address), flagEphemeral)
}

// run runs a command with the machine's clock and the cluster's settings.
func (r *registryTest) run(args ...string) clitest.Outcome {
	r.t.Helper()
	return r.runWith(map[string]string{"LEAFD_ZK": r.server.Addr(), "LEAFD_ZK_ROOT": r.root}, args...)
}

func (r *registryTest) runWith(env map[string]string, args ...string) clitest.Outcome {
	r.t.Helper()
	var stdout, stderr bytes.Buffer
	code := cli.Run(r.t.Context(), cli.Process{Args: args, Stdout: &stdout, Stderr: &stderr, Env: env, Clock: r.clk})
	return clitest.Outcome{Code: code, Stdout: stdout.String(), Stderr: stderr.String()}
}

// tells waits until a daemon tells its clock: it does so while it starts.
func (l *child) tells() *child {
	l.t.Helper()
	l.awaitStatus("/api/clock", 200)
	return l
}

// field returns the value of a row of `worker show` and `worker self`.
func field(t *testing.T, table, name string) string {
	t.Helper()
	for line := range strings.Lines(table) {
		if value, found := strings.CutPrefix(line, name+"  "); found {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("no field %q in\n%s", name, table)
	return ""
}
