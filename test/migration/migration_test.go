//go:build migration

// Package migration_test walks through docs/MIGRATION.md with programs in Java, which
// make test-migration builds.
package migration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/internal/loadtest/unique"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// Where the Java programs are, and the server's jar of a real Java Leaf; empty: JavaLeaf stands
// in for it.
var (
	programs = os.Getenv("LEAFDTEST_MIGRATION")
	leafJar  = os.Getenv("LEAFDTEST_LEAF_JAR")
)

const patience = time.Minute

func TestMain(m *testing.M) {
	os.Exit(zookeepertest.StopAfter(mariadbtest.StopAfter(proctest.RemoveLeafdAfter(m))).Run())
}

// site is a ZooKeeper with a Java Leaf cluster that moves over.
type site struct {
	t       *testing.T
	leafd   string
	servers string
	name    string // leaf.name
	entries func() []string
	dsn     string // of the table, for leafd
	jdbc    string // of the same, for Java
}

func (s *site) forever() string { return "/snowflake/" + s.name + "/forever" }

// run runs leafd on the site, and returns its exit code and what it printed.
func (s *site) run(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var out, diag strings.Builder
	cmd := exec.CommandContext(ctx, s.leafd, append(args, "--zk", s.servers, "--zk-root", "/leafd-"+s.name, "--zk-forever-path", s.forever())...)
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{}, &out, &diag
	err := cmd.Run()
	var exit *exec.ExitError
	require.True(s.t, err == nil || errors.As(err, &exit), "%v", err)
	return cmd.ProcessState.ExitCode(), out.String(), diag.String()
}

// ok is run of a command that has to succeed.
func (s *site) ok(args ...string) string {
	s.t.Helper()
	code, stdout, stderr := s.run(args...)
	require.Zero(s.t, code, "%q: %s", args, stderr)
	return stdout
}

// host is a machine on which a Java Leaf or leafd runs, at one address.
type host struct {
	*site
	dir     string
	port    string
	http    string // where both answer
	address string // how its entry is called
	worker  int64
	runs    *proctest.Daemon
}

func (s *site) host() *host {
	s.t.Helper()
	http, err := proctest.FreeAddress()
	require.NoError(s.t, err)
	_, port, err := net.SplitHostPort(http)
	require.NoError(s.t, err)
	h := &host{site: s, dir: s.t.TempDir(), port: port, http: http}
	require.NoError(s.t, os.Mkdir(h.dir+"/conf", 0o700))
	require.NoError(s.t, os.Mkdir(h.dir+"/tmp", 0o700))
	require.NoError(s.t, os.WriteFile(h.dir+"/conf/leaf.properties", fmt.Appendf(nil,
		"leaf.name=%s\nleaf.snowflake.enable=true\nleaf.snowflake.zk.address=%s\nleaf.snowflake.port=%s\n"+
			"leaf.segment.enable=true\nleaf.jdbc.url=%s\nleaf.jdbc.username=root\nleaf.jdbc.password=\n", s.name, s.servers, port, s.jdbc), 0o600))
	return h
}

// start starts a program as what runs on the host.
func (h *host) start(command ...string) *proctest.Daemon {
	h.t.Helper()
	d, err := proctest.StartDaemon(proctest.Config{Command: command, Env: []string{"PATH=" + os.Getenv("PATH")}, Address: h.http})
	require.NoError(h.t, err)
	h.t.Cleanup(func() {
		require.NoError(h.t, d.End(syscall.SIGKILL))
		if h.t.Failed() {
			h.t.Logf("log of %q:\n%s", command, d.Log())
		}
	})
	return d
}

// javaLeaf starts the host's Java Leaf; it may end at once.
func (h *host) javaLeaf() *proctest.Daemon {
	h.t.Helper()
	classes, main := programs+"/migration.jar:"+programs+"/lib/*", "JavaLeaf"
	if leafJar != "" {
		classes, main = leafJar, "org.springframework.boot.loader.JarLauncher"
	}
	return h.start("java", "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-Djava.io.tmpdir="+h.dir+"/tmp", "-Dserver.address=127.0.0.1", "-Dserver.port="+h.port,
		"-cp", h.dir+"/conf:"+classes, main)
}

// java starts the host's Java Leaf and waits until it issues IDs.
func (h *host) java() {
	h.t.Helper()
	h.runs = h.javaLeaf()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	require.NoError(h.t, h.runs.Await(ctx, 50*time.Millisecond, func(context.Context) error {
		_, err := h.id()
		return err
	}))
	names := h.entries()
	i := slices.IndexFunc(names, func(name string) bool { return strings.Contains(name, ":"+h.port+"-") })
	require.GreaterOrEqual(h.t, i, 0, "%q", names)
	address, number, _ := strings.Cut(names[i], "-")
	worker, err := strconv.ParseInt(number, 10, 64)
	require.NoError(h.t, err)
	h.address, h.worker = address, worker
	h.issuesUnder(worker)
}

// javaFails starts the host's Java Leaf, which must not get to issue IDs.
func (h *host) javaFails(why string) {
	h.t.Helper()
	d := h.javaLeaf()
	require.Eventually(h.t, func() bool { return d.Logged("Snowflake Id Gen is not init ok") > 0 }, patience, 50*time.Millisecond, why)
	require.Never(h.t, func() bool {
		_, err := h.id()
		return err == nil
	}, 3*time.Second, 100*time.Millisecond, why)
	require.NoError(h.t, d.End(syscall.SIGTERM))
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
	return strconv.ParseInt(string(body), 10, 64)
}

func (h *host) issuesUnder(worker int64) {
	h.t.Helper()
	id, err := h.id()
	require.NoError(h.t, err)
	require.Equal(h.t, worker, id>>12&1023)
}

// moveJSON is what is used here of what leafd worker adopt and return print.
type moveJSON struct {
	WorkerID int64 `json:"worker_id"`
	Changed  bool  `json:"changed"`
	Steps    []struct{ State, Text string }
}

// move runs leafd worker adopt or return.
func (h *host) move(verb string) (code int, done moveJSON, stderr string) {
	h.t.Helper()
	code, stdout, stderr := h.run("worker", verb, h.address, "--data-dir", h.dir+"/data", "--java-http", h.http, "--java-tmpdir", h.dir+"/tmp", "-o", "json")
	if code == 0 {
		require.NoError(h.t, json.Unmarshal([]byte(stdout), &done), stdout)
		require.Equal(h.t, h.worker, done.WorkerID)
	}
	return code, done, stderr
}

// adopt moves the stopped Java Leaf's host to leafd, by the commands that leafd worker adopt prints.
func (h *host) adopt() {
	h.t.Helper()
	code, done, stderr := h.move("adopt")
	require.Zero(h.t, code, stderr)
	require.True(h.t, done.Changed)
	commands := map[string][]string{}
	for _, step := range done.Steps {
		if command, found := strings.CutPrefix(step.Text, "leafd "); found {
			command, _, _ = strings.Cut(command, ", and your")
			args := strings.Fields(command)
			commands[args[0]] = append(args, "--segment-regressed", "refuse", "--mysql", h.dsn)
		}
	}
	require.NotEmpty(h.t, commands["doctor"])
	doctor := exec.CommandContext(h.t.Context(), h.leafd, commands["doctor"]...)
	doctor.Env = []string{}
	out, err := doctor.CombinedOutput()
	require.NoError(h.t, err, "%s", out)
	h.runs = h.start(append([]string{h.leafd}, commands["serve"]...)...)
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	require.NoError(h.t, h.runs.AwaitReady(ctx))
	h.issuesUnder(h.worker)
}

// load is the requests for one kind of IDs to one host, which come whether it answers or not.
type load struct {
	t      *testing.T
	cancel context.CancelFunc
	ended  chan struct{}
	result *loadtest.Result // once ended
	err    error
}

// load begins a load whose IDs are compared with all others of their kind in journal.
func (h *host) load(mode loadtest.Mode, journal *unique.Journal, number int) *load {
	l := &load{t: h.t, ended: make(chan struct{})}
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(h.t.Context())
	go func() {
		defer close(l.ended)
		l.result, l.err = loadtest.Run(ctx, loadtest.Config{
			URLs: []string{"http://" + h.http}, Mode: mode, Keys: []string{"order"}, Batch: 1, Clients: 4, FirstClient: 4 * number,
			Rate: 500, Tick: 10 * time.Millisecond, Duration: time.Hour, Timeout: 5 * time.Second, Journals: []*unique.Journal{journal},
		})
	}()
	return l
}

func (l *load) end() loadtest.Counts {
	l.t.Helper()
	l.cancel()
	<-l.ended
	require.NoError(l.t, l.err)
	require.NoError(l.t, l.result.Close())
	return l.result.Counts
}

// client runs the client in Java against the host.
func (h *host) client(path string) {
	h.t.Helper()
	out, err := exec.CommandContext(h.t.Context(), "java", "-cp", programs+"/migration.jar:"+programs+"/lib/*", "JavaClient", "http://"+h.http, path).CombinedOutput()
	require.NoError(h.t, err, "%s", out)
}

// Three Java Leafs move over to leafd one by one, one of them goes back and comes again, under
// load all the while: no ID comes twice. Java Leafs that come back in between don't start.
func TestMigration(t *testing.T) {
	server, mariadb := zookeepertest.Shared(t), mariadbtest.Shared(t)
	database := mariadb.NewDatabase(t)
	_, err := mariadb.DB(t, database).ExecContext(t.Context(), "CREATE TABLE leaf_alloc (biz_tag varchar(128) NOT NULL DEFAULT '', max_id bigint(20) NOT NULL DEFAULT '1', "+
		"step int(11) NOT NULL, description varchar(256) DEFAULT NULL, "+
		"update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (biz_tag)) ENGINE=InnoDB; "+
		"INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 1000)")
	require.NoError(t, err)
	s := &site{
		t: t, leafd: proctest.Leafd(t), servers: server.Addr(), name: "com.example.leaf", dsn: mariadb.DSN(database),
		jdbc: "jdbc:mysql://" + mariadb.Addr() + "/" + database + "?useSSL=false",
	}
	conn := server.Conn(t)
	s.entries = func() []string {
		names, _, err := conn.Children(s.forever())
		require.NoError(t, err)
		return names
	}
	var hosts []*host
	for range 3 { // one after the other: racers of a first start all have worker 0
		h := s.host()
		h.java()
		hosts = append(hosts, h)
	}
	require.Equal(t, []int64{0, 1, 2}, []int64{hosts[0].worker, hosts[1].worker, hosts[2].worker})
	hosts[0].client("/api/snowflake/get/x")
	hosts[0].client("/api/segment/get/order")
	s.ok("cluster", "init")

	journals, loads := map[loadtest.Mode]*unique.Journal{}, map[loadtest.Mode][]*load{}
	for _, mode := range []loadtest.Mode{loadtest.Snowflake, loadtest.Segment} {
		var err error
		journals[mode], err = unique.New(unique.Options{Memory: unique.MinMemory})
		require.NoError(t, err)
		defer func() { require.NoError(t, journals[mode].Close()) }()
		for i, h := range hosts {
			loads[mode] = append(loads[mode], h.load(mode, journals[mode], i))
		}
	}

	code, _, stderr := hosts[0].move("adopt")
	require.Equal(t, 4, code, "it runs: %s", stderr)
	for _, h := range hosts {
		h.stop()
		left, err := filepath.Glob(h.dir + "/tmp*/*/leafconf/*/workerID.properties")
		require.NoError(t, err)
		require.Len(t, left, 1, "with it a Java Leaf that comes back starts")
		h.adopt()
		require.NoFileExists(t, left[0])
		code, _, stderr := h.move("return")
		require.Equal(t, 4, code, "leafd runs: %s", stderr)
	}
	hosts[0].client("/api/snowflake/get/x")
	hosts[0].client("/api/segment/get/order")

	h := hosts[2]
	h.stop()
	h.javaFails("its unit was not disabled, and the entry is leafd's")
	code, _, stderr = h.move("return")
	require.Zero(t, code, stderr)
	h.java()
	time.Sleep(4 * time.Second) // it reports
	h.stop()
	h.adopt()
	for _, h := range hosts {
		require.Contains(t, s.ok("worker", "show", h.address), "live")
		h.issuesUnder(h.worker)
	}

	for mode, all := range loads {
		for i, l := range all {
			counts := l.end()
			require.Greater(t, counts.IDs, int64(5000))
			t.Logf("%s, host %d: %d IDs, %d requests failed while it moved", mode, i, counts.IDs, counts.Failed)
		}
		report, err := journals[mode].Check(t.Context(), nil)
		require.NoError(t, err)
		require.Zero(t, report.Repeated, "%+v", report.First)
		t.Logf("%s: %d IDs, none twice", mode, report.IDs)
	}
}
