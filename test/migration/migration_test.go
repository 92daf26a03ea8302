//go:build migration

// Package migration_test walks through docs/MIGRATION.md with programs in Java, which
// make test-migration builds.
package migration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/unique"
	"github.com/leafd/leafd/test/zookeepertest"
)

// Where the Java programs are, and the unpacked jar of a real Java Leaf's server; empty: JavaLeaf
// stands in for it.
var (
	programs = os.Getenv("LEAFDTEST_MIGRATION")
	realLeaf = os.Getenv("LEAFDTEST_LEAF")
)

const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	os.Exit(zookeepertest.StopAfter(mariadbtest.StopAfter(proctest.RemoveLeafdAfter(m))).Run())
}

// site is a ZooKeeper and a table that Java Leafs have, and leafd beside them.
type site struct {
	t       *testing.T
	leafd   string
	servers string
	name    string // leaf.name
	conn    *zk.Conn
	dsn     string // of the table, for leafd
	jdbc    string // of the same, for Java

	sets map[loadtest.Mode]*unique.Set // all IDs of each kind
	rate float64                       // of each load's requests, a second

	mu    sync.Mutex
	loads []*load // mu protects
}

// sharedSite is a site with a table, for which rows is executed.
func sharedSite(t *testing.T, rows string) *site {
	t.Helper()
	server, mariadb := zookeepertest.Shared(t), mariadbtest.Shared(t)
	database := mariadb.NewDatabase(t)
	_, err := mariadb.DB(t, database).ExecContext(t.Context(), "CREATE TABLE leaf_alloc (biz_tag varchar(128) NOT NULL DEFAULT '', max_id bigint(20) NOT NULL DEFAULT '1', "+
		"step int(11) NOT NULL, description varchar(256) DEFAULT NULL, "+
		"update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (biz_tag)) ENGINE=InnoDB; "+rows)
	require.NoError(t, err)
	return &site{
		t: t, leafd: proctest.Leafd(t), servers: server.Addr(), name: "com.example." + database, conn: server.Conn(t), dsn: mariadb.DSN(database),
		jdbc: "jdbc:mysql://" + mariadb.Addr() + "/" + database + "?useSSL=false",
	}
}

func (s *site) forever() string { return "/snowflake/" + s.name + "/forever" }

// settings are what docs/MIGRATION.md has exported, as flags.
func (s *site) settings() []string {
	return []string{"--zk", s.servers, "--zk-root", "/leafd-" + s.name, "--zk-forever-path", s.forever()}
}

// run runs a command of leafd, and returns what it printed.
func (s *site) run(args ...string) (string, error) {
	cmd := exec.CommandContext(s.t.Context(), s.leafd, append(args, s.settings()...)...)
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// ok is run of a command that has to succeed.
func (s *site) ok(args ...string) string {
	s.t.Helper()
	out, err := s.run(args...)
	require.NoError(s.t, err, "%q: %s", args, out)
	return out
}

// javaEntries are the entries of Java Leafs, by worker ID: what leafd writes has more fields.
func (s *site) javaEntries() map[int64]string {
	s.t.Helper()
	names, _, err := s.conn.Children(s.forever())
	require.NoError(s.t, err)
	entries := map[int64]string{}
	for _, name := range names {
		data, _, err := s.conn.Get(s.forever() + "/" + name)
		require.NoError(s.t, err)
		if !strings.Contains(string(data), "instance") {
			address, number, _ := strings.Cut(name, "-")
			id, err := strconv.ParseInt(number, 10, 64)
			require.NoError(s.t, err)
			require.Regexp(s.t, `^\{"ip":"[0-9.]+","port":"[0-9]+","timestamp":[0-9]+\}$`, string(data))
			entries[id] = address + " " + string(data)
		}
	}
	return entries
}

// host is a place where one Java Leaf or one leafd runs, at one address.
type host struct {
	*site
	dir    string
	port   string
	http   string
	worker int64 // once it issued; -1: none
	runs   *proctest.Daemon
	before string // the log of the one before
}

func (s *site) host() *host {
	s.t.Helper()
	http, err := proctest.FreeAddress()
	require.NoError(s.t, err)
	_, port, err := net.SplitHostPort(http)
	require.NoError(s.t, err)
	h := &host{site: s, dir: s.t.TempDir(), port: port, http: http, worker: -1}
	require.NoError(s.t, os.WriteFile(h.dir+"/leaf.properties", fmt.Appendf(nil,
		"leaf.name=%s\nleaf.snowflake.enable=true\nleaf.snowflake.zk.address=%s\nleaf.snowflake.port=%s\n"+
			"leaf.segment.enable=%v\nleaf.jdbc.url=%s\nleaf.jdbc.username=root\nleaf.jdbc.password=\n", s.name, s.servers, port, s.jdbc != "", s.jdbc), 0o600))
	s.t.Cleanup(func() {
		if h.runs == nil {
			return
		}
		require.NoError(s.t, h.runs.End(syscall.SIGKILL))
		if s.t.Failed() {
			s.t.Logf("last on %s, worker %d:\n%s\nbefore it:\n%s", h.http, h.worker, h.runs.Log(), h.before)
		}
	})
	return h
}

// launch starts a program as what runs on the host.
func (h *host) launch(command []string) error {
	if h.runs != nil {
		h.before = h.runs.Log()
	}
	var err error
	h.runs, err = proctest.StartDaemon(proctest.Config{Command: command, Env: []string{"PATH=" + os.Getenv("PATH")}, Address: h.http})
	return err
}

// start starts a program, and waits until it issues IDs.
func (h *host) start(command []string) error {
	if err := h.launch(command); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	return h.runs.Await(ctx, 50*time.Millisecond, func(context.Context) error {
		id, err := h.id()
		if err == nil {
			h.worker = id >> 12 & 1023
		}
		return err
	})
}

// javaCommand is the host's Java Leaf.
func (h *host) javaCommand() []string {
	classes, main := programs+"/migration.jar:"+programs+"/lib/*", "JavaLeaf"
	if realLeaf != "" {
		classes, main = realLeaf+"/BOOT-INF/classes:"+realLeaf+"/BOOT-INF/lib/*", "com.sankuai.inf.leaf.server.LeafServerApplication"
	}
	return []string{
		"java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m", "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-Djava.io.tmpdir=" + h.dir,
		"-Dserver.address=127.0.0.1", "-Dserver.port=" + h.port, "-cp", h.dir + ":" + classes, main,
	}
}

// java starts the host's Java Leaf, and its entry has its worker ID.
func (h *host) java() {
	h.t.Helper()
	require.NoError(h.t, h.start(h.javaCommand()))
	require.NoError(h.t, h.readTheTree())
	require.Contains(h.t, h.javaEntries()[h.worker], ":"+h.port+" ")
}

// readTheTree tells whether the Java Leaf that issues on the host has its worker ID from the tree: where it can't read that it
// logs so, goes by its file workerID.properties, and never reports.
func (h *host) readTheTree() error {
	log := h.runs.Log()
	for _, line := range []string{"Start node ERROR", "START FAILED", "create node error", "update init data error"} {
		if strings.Contains(log, line) {
			return fmt.Errorf("the Java Leaf of %s logs %q", h.http, line)
		}
	}
	if line := fmt.Sprintf("START SUCCESS USE ZK WORKERID-%d\n", h.worker); !strings.Contains(log, line) {
		return fmt.Errorf("the Java Leaf of %s, worker %d, does not log %q", h.http, h.worker, line)
	}
	return nil
}

// refused starts the host's Java Leaf, which has to refuse its worker ID. A real one does not end then, and reports.
func (h *host) refused() {
	h.t.Helper()
	require.NoError(h.t, h.launch(h.javaCommand()))
	require.Eventually(h.t, func() bool {
		return h.runs.Ended() || h.runs.Logged("Caused by", "workerID must gte 0 and lte 1023") > 0
	}, patience, 50*time.Millisecond)
	for range 20 {
		_, err := h.id()
		require.Error(h.t, err)
		time.Sleep(100 * time.Millisecond)
	}
	require.Contains(h.t, h.runs.Log(), "workerID must gte 0 and lte 1023")
	require.NoError(h.t, h.runs.End(syscall.SIGKILL))
}

// serve starts leafd on the host, which leafd doctor has found nothing against.
func (h *host) serve() {
	h.t.Helper()
	args := []string{"--mysql", h.dsn}
	h.ok(append([]string{"doctor", "--listen", h.http, "--data-dir", h.dir + "/data"}, args...)...)
	require.NoError(h.t, h.start(h.serveCommand(args...)))
	require.NotContains(h.t, h.javaEntries(), h.worker)
}

// serveCommand is leafd on the host, with more settings.
func (h *host) serveCommand(more ...string) []string {
	return slices.Concat([]string{h.leafd, "serve", "--listen", h.http, "--data-dir", h.dir + "/data"}, h.settings(), more)
}

// stop ends what runs on the host as systemd does.
func (h *host) stop() {
	h.t.Helper()
	require.NoError(h.t, h.runs.End(syscall.SIGTERM))
}

// id is one ID of the host's.
func (h *host) id() (int64, error) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + h.http + "/api/snowflake/get/x")
	if err != nil {
		return 0, err
	}
	body, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return 0, err
	}
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", res.Status, body)
	}
	id, err := strconv.ParseInt(string(body), 10, 64)
	if set := h.sets[loadtest.Snowflake]; err == nil && set != nil {
		set.Take(0, []int64{id})
	}
	return id, err
}

// client runs the client in Java against the host.
func (h *host) client() {
	h.t.Helper()
	for _, path := range []string{"/api/snowflake/get/x", "/api/segment/get/order"} {
		out, err := exec.CommandContext(h.t.Context(), "java", "-cp", programs+"/migration.jar:"+programs+"/lib/*", "JavaClient", "http://"+h.http, path).CombinedOutput()
		require.NoError(h.t, err, "%s", out)
	}
}

// load is the requests for one kind of IDs to one host, which come whether it answers or not.
type load struct {
	*host
	mode   loadtest.Mode
	cancel context.CancelFunc
	ended  chan struct{}
	result *loadtest.Result // once ended
	err    error
}

// load begins a load of each kind on the host, which runs.
func (h *host) load() {
	for mode, set := range h.sets {
		l := &load{host: h, mode: mode, ended: make(chan struct{})}
		var ctx context.Context
		ctx, l.cancel = context.WithCancel(h.t.Context())
		h.mu.Lock()
		h.loads = append(h.loads, l)
		h.mu.Unlock()
		go func() {
			defer close(l.ended)
			l.result, l.err = loadtest.Run(ctx, loadtest.Config{
				URLs: []string{"http://" + h.http}, Mode: mode, Keys: []string{"order"}, Batch: 1, Clients: 4,
				Rate: h.rate, Duration: time.Hour, Timeout: 5 * time.Second, Take: set.Take,
			})
		}()
	}
}

func (l *load) end() loadtest.Counts {
	l.t.Helper()
	l.cancel()
	<-l.ended
	require.NoError(l.t, l.err)
	return l.result.Counts
}

// The walk of docs/MIGRATION.md, under load all the while: leafds start beside Java Leafs, the
// clients are turned over, the Java Leafs stop; and the way back. No ID comes twice, and no entry
// of a Java Leaf's is written but by itself.
func TestMigration(t *testing.T) {
	s := sharedSite(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 1000)")
	s.rate = 500
	var hosts []*host // Java Leafs, then leafds
	for range 5 {
		hosts = append(hosts, s.host())
	}
	java, late, leafds := hosts[:2], hosts[2], hosts[3:]
	for _, h := range java { // one after the other: racers of a first start all have worker 0
		h.java()
	}
	java[0].client()
	s.sets = map[loadtest.Mode]*unique.Set{loadtest.Snowflake: {}, loadtest.Segment: {}}
	for _, h := range java {
		h.load()
	}

	// Start leafd beside them.
	s.ok("cluster", "init", "--new", "--yes")
	for _, h := range leafds {
		h.serve()
		h.load()
	}
	late.java() // a Java Leaf that is new finds its way, too
	late.load()
	workers := map[int64]bool{}
	for _, h := range hosts {
		workers[h.worker] = true
	}
	require.Len(t, workers, len(hosts), "each has a worker ID of its own")
	require.Contains(t, s.ok("worker", "list"), "5 entries, 2 live, 3 foreign, ")
	time.Sleep(4 * time.Second) // all report

	// Turn the clients over, and stop the Java Leafs.
	for _, h := range leafds {
		h.client()
	}
	for _, h := range hosts[:3] {
		h.stop()
	}
	left := s.javaEntries()
	require.Len(t, left, 3)
	leafds[0].stop()
	was := leafds[0].worker
	leafds[0].serve()
	require.Equal(t, was, leafds[0].worker)
	time.Sleep(4 * time.Second) // they report
	require.Equal(t, left, s.javaEntries(), "as the Java Leafs left them")

	// The way back.
	for _, h := range java {
		was := h.worker
		h.java()
		require.Equal(t, was, h.worker)
		h.client()
	}
	for _, h := range leafds {
		h.stop()
	}
	java[0].client()

	s.noneTwice(1000)
}

// noneTwice ends the loads, each of which has to have so many IDs, and compares all IDs.
func (s *site) noneTwice(least int64) {
	s.t.Helper()
	for _, l := range s.loads {
		counts := l.end()
		require.GreaterOrEqual(s.t, counts.IDs, least, l.http)
		s.t.Logf("%s of %s: %d IDs, %d requests failed while it did not run", l.mode, l.http, counts.IDs, counts.Failed)
	}
	for mode, set := range s.sets {
		ids, repeated := set.Came()
		require.Empty(s.t, repeated)
		s.t.Logf("%s: %d IDs, none twice", mode, ids)
	}
}
