package main

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// story is a scenario: steps on the daemons of one cluster, by name, which read like the comment above
// it. At its end every daemon stops cleanly, no process is left, and no ID was issued twice.
type story struct {
	*cluster
	zk     *zookeepertest.Server // nil: the daemons are standalone
	o      *onlooker
	hosts  map[string]*storyHost
	issued []int64 // every ID that was received
	ended  bool
}

// storyHost is where a daemon of a story lives. Its connection to ZooKeeper can be cut.
type storyHost struct {
	*machine
	*child  // of its last start
	proxy   *zookeepertest.Proxy
	clients *load // nil: none
	muted   bool
	refused bool // its clients may be refused
}

// standalone begins a story without ZooKeeper.
func standalone(t *testing.T) *story {
	t.Helper()
	t.Parallel()
	return &story{cluster: &cluster{t: t}, hosts: map[string]*storyHost{}}
}

// newStory begins a story on the ZooKeeper that the tests share, with a cluster that was made with args.
func newStory(t *testing.T, args ...string) *story {
	t.Helper()
	t.Parallel()
	return onShared(t, args...).story(zookeepertest.Shared(t))
}

// ownStory begins a story on a ZooKeeper of its own, with a root older than a minute, so that claims settle.
func ownStory(t *testing.T, args ...string) *story {
	t.Helper()
	t.Parallel()
	zk := zookeepertest.StartSkewed(t, -2*time.Minute)
	c := (&cluster{t: t, servers: []string{zk.Addr()}, root: "/leaf"}).init(args...)
	zk.SetClock(t, 0)
	return c.story(zk)
}

// story begins one on the cluster.
func (c *cluster) story(zk *zookeepertest.Server) *story {
	c.t.Helper()
	return &story{cluster: c, zk: zk, o: newOnlooker(c.t, zk, c.root), hosts: map[string]*storyHost{}}
}

// host adds a host, with the settings of its daemons.
func (s *story) host(name string, args ...string) *storyHost {
	s.t.Helper()
	h := &storyHost{}
	if s.zk == nil {
		h.machine = newMachine(s.t)
		h.machine.addr = freeAddress(s.t)
	} else {
		h.proxy = zookeepertest.NewProxy(s.t, s.zk.Addr())
		h.machine = s.machine("--zk", h.proxy.Addr())
	}
	h.zk = append(append(h.zk, steady()...), args...)
	s.hosts[name] = h
	return h
}

// sets changes the settings of a host's next daemons.
func (s *story) sets(name string, args ...string) {
	s.hosts[name].zk = append(s.hosts[name].zk, args...)
}

// settles has the claims of hosts settle for as long as a daemon's do.
func (s *story) settles(names ...string) {
	for _, name := range names {
		s.hosts[name].settle = 0
		s.sets(name, "--startup-timeout", "5m")
	}
}

// copies adds a host with a copy of another one's data directory.
func (s *story) copies(name, original string, args ...string) {
	s.t.Helper()
	require.NoError(s.t, os.CopyFS(s.host(name, args...).dataDir(), os.DirFS(s.hosts[original].dataDir())))
}

// clones adds a host with a clone of another one's disk: the record in it says that it was written there.
func (s *story) clones(name, original string) {
	s.t.Helper()
	s.copies(name, original)
	dir, err := cache.Open(s.hosts[name].dataDir())
	require.NoError(s.t, err)
	r, err := dir.Load()
	require.NoError(s.t, err)
	r.DirectoryID, err = dir.DirectoryID()
	require.NoError(s.t, err)
	require.NoError(s.t, dir.Save(r))
	require.NoError(s.t, dir.Close())
}

func (s *story) start(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.hosts[name].child = s.hosts[name].start()
		s.t.Cleanup(s.end) // before what the start has registered
	}
}

// ready waits until daemons are, and starts those that don't run.
func (s *story) ready(names ...string) {
	s.t.Helper()
	for _, name := range names {
		if h := s.hosts[name]; h.child == nil || h.Ended() {
			s.start(name)
		}
	}
	for _, name := range names {
		s.hosts[name].awaitReady()
	}
}

// stop stops daemons cleanly.
func (s *story) stop(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.gather(name)
		s.hosts[name].signal(syscall.SIGTERM)
	}
	for _, name := range names {
		require.Equal(s.t, cli.ExitOK, s.hosts[name].ExitCode(), name)
	}
}

// kill ends daemons as a power cut would.
func (s *story) kill(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.hosts[name].kill()
		s.hosts[name].refused = true
		s.gather(name)
		s.hosts[name].refused = false
	}
}

func (s *story) freeze(names ...string) { s.signal(syscall.SIGSTOP, names) }
func (s *story) thaw(names ...string)   { s.signal(syscall.SIGCONT, names) }

func (s *story) signal(sig syscall.Signal, names []string) {
	s.t.Helper()
	for _, name := range names {
		s.hosts[name].signal(sig)
	}
}

// exits waits until a start has ended by itself, with a log that has all of says, and nothing issued.
func (s *story) exits(name string, code int, says ...string) {
	s.t.Helper()
	h := s.hosts[name]
	h.exits(code, name)
	for _, part := range says {
		require.Contains(s.t, h.Log(), part)
	}
	require.NotContains(s.t, h.Log(), "issuing snowflake IDs")
}

// cut takes ZooKeeper from hosts: each connection is closed, and none is accepted.
func (s *story) cut(names ...string) {
	for _, name := range names {
		s.hosts[name].proxy.Down(s.t)
	}
}

// mute takes ZooKeeper from hosts: what they send is swallowed.
func (s *story) mute(names ...string) {
	for _, name := range names {
		s.hosts[name].muted = true
		s.hosts[name].proxy.Blackhole(s.t, true)
	}
}

// heal ends cut and mute.
func (s *story) heal(names ...string) {
	for _, name := range names {
		h := s.hosts[name]
		if !h.muted {
			h.proxy.Up(s.t)
			continue
		}
		h.muted = false
		h.proxy.Blackhole(s.t, false)
	}
}

// restore sets ZooKeeper back. A connection that has seen more than the backup has is refused then.
func (s *story) restore(backup zookeepertest.Backup) {
	s.t.Helper()
	s.zk.Restore(s.t, backup)
	s.o = newOnlooker(s.t, s.zk, s.root)
}

// wipe empties ZooKeeper.
func (s *story) wipe() {
	s.t.Helper()
	s.zk.Wipe(s.t)
	s.o = newOnlooker(s.t, s.zk, s.root)
}

// told waits for a line in a daemon's log that has all of parts.
func (s *story) told(name string, parts ...string) {
	s.t.Helper()
	s.hosts[name].awaitLog(parts...)
}

// never requires that daemons have raised no alarm with one of codes.
func (s *story) never(code string, names ...string) {
	s.t.Helper()
	for _, name := range names {
		require.Zero(s.t, s.hosts[name].alarms(code), "%s: %s", name, code)
	}
}

// refuses waits until a daemon refuses snowflake IDs with code.
func (s *story) refuses(name, code string) {
	s.t.Helper()
	s.hosts[name].awaitCode("/api/snowflake/get/a", code)
}

// unready waits until a daemon's /readyz has code.
func (s *story) unready(name, code string) {
	s.t.Helper()
	s.hosts[name].awaitCode("/readyz", code)
}

// ids takes IDs from daemons.
func (s *story) ids(names ...string) (list []int64) {
	s.t.Helper()
	for _, name := range names {
		list = append(list, s.hosts[name].batch("/api/snowflake/get/some?n=500")...)
	}
	s.issued = append(s.issued, list...)
	return list
}

// silent requires that a daemon issues nothing for d.
func (s *story) silent(name string, d time.Duration) {
	s.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(3 * time.Millisecond) {
		if a, err := s.hosts[name].get("/api/snowflake/get/a?n=100"); err == nil {
			require.NotEqual(s.t, http.StatusOK, a.status, "issued too early: %.60s", a.body)
		}
	}
}

// asked has clients ask daemons for IDs from now on. Until flows or stop no request may be refused.
func (s *story) asked(names ...string) {
	for _, name := range names {
		s.hosts[name].clients = newLoad(s.hosts[name].child, "/api/snowflake/get/a?n=20")
	}
}

// flows waits until the clients of daemons have got more IDs, and requires that none was refused any.
func (s *story) flows(names ...string) {
	s.t.Helper()
	for _, name := range names {
		ld := s.hosts[name].clients
		ld.flows(s.t, 1000)
		ld.note(func() {
			require.True(s.t, s.hosts[name].refused || ld.failed == 0 && len(ld.refused) == 0, "%s: %v, %d failed", name, ld.refused, ld.failed)
		})
	}
}

// refusable lets the clients of daemons be refused.
func (s *story) refusable(names ...string) {
	for _, name := range names {
		s.hosts[name].refused = true
	}
}

// gather ends a daemon's clients.
func (s *story) gather(name string) {
	s.t.Helper()
	h := s.hosts[name]
	if h.clients == nil {
		return
	}
	got := h.clients.stop()
	s.issued = append(s.issued, got...)
	require.Empty(s.t, h.clients.broken, name)
	if !h.refused {
		require.Empty(s.t, h.clients.refused, name)
		require.Zero(s.t, h.clients.failed, name)
	}
	h.clients = nil
}

// is requires that a daemon has a worker ID.
func (s *story) is(name string, workerID int64) {
	s.t.Helper()
	require.Equal(s.t, workerID, s.hosts[name].info().ID, name)
}

// workerIDs returns those of daemons, which are different.
func (s *story) workerIDs(names ...string) map[string]int64 {
	s.t.Helper()
	all := map[string]int64{}
	for _, name := range names {
		all[name] = s.hosts[name].info().ID
	}
	require.Len(s.t, slices.Compact(slices.Sorted(maps.Values(all))), len(names), "%v", all)
	return all
}

// standing is a worker ID's entry.
func (s *story) standing(workerID int64) znode {
	s.t.Helper()
	return s.o.must(s.o.path(workerID)).payload(s.t)
}

// confirmed waits until ZooKeeper has a report from now on of each daemon.
func (s *story) confirmed(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.o.settled(s.hosts[name].machine, s.hosts[name].child)
	}
}

// status is what stands in the root, with any verdict on it.
func (s *story) status() cli.ClusterJSON {
	s.t.Helper()
	return clitest.FromJSON[cli.ClusterJSON](s.t, s.onMachine(newMachine(s.t), "cluster", "status", "-o", "json").Stdout)
}

// says runs a command of the operator's on the cluster.
func (s *story) says(args ...string) string {
	s.t.Helper()
	out := s.onMachine(newMachine(s.t), append(args, "--yes", "--clock-threshold", "10ms")...)
	require.Equal(s.t, cli.ExitOK, out.Code, out.Stderr)
	return out.Stdout
}

// releasedByForce releases a worker ID whatever its holder does, and waits until another may have it.
func (s *story) releasedByForce(workerID int64) {
	s.t.Helper()
	s.says("worker", "release", fmt.Sprint(workerID), "--force")
	m, limit := newMachine(s.t), s.standing(workerID).Limit
	m.passes(limit.Sub(m.now()) + time.Millisecond)
}

// end stops what runs, and compares all IDs.
func (s *story) end() {
	if s.ended {
		return
	}
	s.ended = true
	for name, h := range s.hosts {
		switch {
		case h.child == nil:
		case s.t.Failed() && h.clients != nil:
			h.clients.stop()
		case !h.Ended() && !s.t.Failed():
			s.stop(name)
		}
	}
	if len(s.issued) > 0 && !s.t.Failed() {
		requireDistinct(s.t, s.issued)
	}
}

// readyz is a daemon's answer while it is ready.
func (s *story) readyz(name string) string {
	s.t.Helper()
	return s.hosts[name].awaitStatus("/readyz", http.StatusOK).body
}
