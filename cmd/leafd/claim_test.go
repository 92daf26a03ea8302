package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// Sixteen daemons meet a new root at once: each has a worker ID of its own, and again after
// a restart of all, half of them by a power cut.
func TestSixteenFirstStartsAtOnce(t *testing.T) {
	s := newStory(t)
	var all []string
	for i := range 16 {
		all = append(all, fmt.Sprint(i))
		s.host(all[i])
	}
	s.ready(all...)
	was := s.workerIDs(all...)
	s.asked(all...)
	s.flows(all...)
	for _, id := range was {
		require.Less(t, id, int64(16))
	}
	s.stop(all[:8]...)
	s.kill(all[8:]...)
	s.ready(all...)
	require.Equal(t, was, s.workerIDs(all...))
	require.Len(t, s.o.entries(), 16)
	s.ids(all...)
}

// A node's name is a label for people, of any characters, and stands in no path. Peers ask
// the address in the name of the temporary node. Another name leaves the worker ID as it is.
func TestNodeNames(t *testing.T) {
	s := newStory(t)
	s.host("plain")
	six := s.host("six")
	_, port, err := net.SplitHostPort(six.machine.addr)
	require.NoError(t, err)
	s.sets("six", "--advertise", net.JoinHostPort("::1", port))
	s.host("named", "--node", "100%-0000000000")
	s.host("namesake", "--node", "100%-0000000000")
	for id, node := range []string{s.hosts["plain"].machine.addr, "[::1]:" + port, "100%-0000000000", "100%-0000000000"} {
		name := []string{"plain", "six", "named", "namesake"}[id]
		s.ready(name)
		s.is(name, int64(id))
		info, entry := s.hosts[name].info(), s.standing(int64(id))
		require.Equal(t, []string{node, info.Address, info.Instance}, []string{entry.Node, net.JoinHostPort(entry.IP, entry.Port), entry.Instance})
		require.Equal(t, []string{info.Address + "~" + info.Instance}, s.o.names(s.o.temporary))
		require.Contains(t, s.onMachine(six.machine, "worker", "list").OK(t), node)
		s.stop(name)
		require.Empty(t, s.o.live())
	}
	s.sets("plain", "--node", "renamed")
	s.ready("plain")
	s.is("plain", 0)
	require.Equal(t, "renamed", s.standing(0).Node)
}

// A name is a label: daemons of one --node on directories of their own, and on a copy of the
// directory of a daemon that runs, run beside each other, each with a worker ID of its own,
// and again after a restart of all.
func TestOneNameOnSeveralDirectories(t *testing.T) {
	s := newStory(t)
	all := []string{"first", "other", "clone"}
	s.host("first", "--node", "ids-1")
	s.host("other", "--node", "ids-1")
	s.ready("first")
	s.asked("first")
	s.flows("first")
	s.copies("clone", "first", "--node", "ids-1")
	s.ready("other", "clone")
	s.told("clone", `"alarm":"worker_id_lost"`, "of which this one is a copy")
	was := s.workerIDs(all...)
	s.asked("other", "clone")
	s.flows(all...)
	require.Len(t, s.o.live(), 3)
	s.stop(all...)
	require.Empty(t, s.o.live())
	s.ready(all...)
	require.Equal(t, was, s.workerIDs(all...))
	require.Len(t, s.o.entries(), 3)
	s.never("worker_fenced", all...)
	s.never("worker_id_lost", all...)
	s.ids(all...)
}

// The data directory is lost after a power cut, or the record in it, or that is damaged: it is a new instance,
// and gets another worker ID. The one before comes back by its limit.
func TestLostDirectoryIsANewInstance(t *testing.T) {
	s := newStory(t)
	dir := s.host("a").dataDir()
	for id, lose := range []func() error{
		func() error { return nil },
		func() error { return os.RemoveAll(dir) },
		func() error { return os.Remove(dir + "/worker.json") },
		func() error { return os.Truncate(dir+"/worker.json", 100) },
	} {
		require.NoError(t, lose())
		s.ready("a")
		s.is("a", int64(id))
		s.ids("a")
		require.Equal(t, id > 1, s.hosts["a"].alarms("worker_id_lost") == 1, s.hosts["a"].Log())
		s.kill("a")
	}
	s.ready("a")
	s.is("a", 3)
	require.Len(t, s.o.entries(), 4)
}

// All worker IDs are taken: a start says when the next one comes back, and what would help, and writes nothing. It
// comes back by the clocks of both the claimant, which is a day ahead here, and ZooKeeper, and with its floor.
func TestTakenOnceItsLimitHasPassed(t *testing.T) {
	t.Parallel()
	s := unmade(t).story(zookeepertest.Shared(t))
	s.o.filled(twoWorkers, 2)
	held := oldEntry(1)
	held.Floor, held.Limit = held.Timestamp.Add(-time.Hour), held.Timestamp.Add(time.Hour)
	s.o.set(s.o.path(1), jsonText(t, held))
	before := s.o.everything()
	s.host("late", "--layout", twoWorkers, "--startup-timeout", "2s", tune("CeilingLead", "1s")).step(dayLater)
	s.start("late")
	s.exits("late", cli.ExitExhausted, `"alarm":"workers_closed"`, "worker IDs 0..1 are all taken", "leafd worker list", "leafd worker release ID --force",
		fmt.Sprintf("the next one comes back at %s unless its daemon goes on", held.Limit))
	require.Equal(t, before, s.o.everything())

	held.Limit = clock.MillisOf(time.Now()).Add(7 * time.Second)
	s.o.set(s.o.path(1), jsonText(t, held))
	s.sets("late", "--startup-timeout", "1m")
	s.ready("late")
	require.GreaterOrEqual(t, clock.MillisOf(time.Now()), held.Limit)
	s.is("late", 1)
	require.Equal(t, held.Limit, s.standing(1).Floor)
	s.ids("late")
}

// A root is for one layout, one epoch and one longest lease; a record is for one format. A start with another one
// is refused, and writes nothing.
func TestStartWithAnothersSettings(t *testing.T) {
	s := newStory(t)
	s.host("first")
	s.ready("first")
	before := s.o.entries()
	for name, tc := range map[string]struct{ args, says []string }{
		"layout": {[]string{"--layout", "41+5+5+12"}, []string{"41+10+12", "41+5+5+12", s.root, "start with the root's, or take another root"}},
		"epoch":  {[]string{"--epoch", "1577836800000"}, []string{"1288834974657", "1577836800000", "start with the root's, or take another root"}},
		"lease":  {[]string{"--lease", "169h"}, []string{"--lease", "168h"}},
	} {
		s.host(name, tc.args...)
		s.start(name)
		s.exits(name, cli.ExitHeld, tc.says...)
	}
	content, err := os.ReadFile("../../testdata/cache/unknown-version-3.json")
	require.NoError(t, err)
	path := s.host("record").dataDir() + "/worker.json"
	require.NoError(t, os.MkdirAll(s.hosts["record"].dataDir(), 0o700))
	require.NoError(t, os.WriteFile(path, content, 0o600))
	s.start("record")
	s.exits("record", cli.ExitFailure, path, "record of a format that this leafd does not know", "its version is 3, and this leafd knows 4", "start the leafd that wrote it")
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, content, after)
	require.Equal(t, before, s.o.entries())
}

// bounded-claim: a thousand hints that lead nowhere keep no newcomer out.
func TestThousandHintsThatLeadNowhere(t *testing.T) {
	s := newStory(t)
	s.host("first")
	s.host("second")
	s.ready("first")
	s.o.each(1000, func(i int) error {
		_, err := s.o.make(fmt.Sprintf("%s/leaf_released/%010d", s.root, i), "", 0)
		return err
	})
	began := time.Now()
	s.ready("second")
	require.Less(t, time.Since(began), 10*time.Second)
	s.is("second", 1)
}

// What can't be read is told, with what to do about it, and no worker ID is guessed: of the root,
// which no daemon joins then, and of an entry, which its own daemon alone writes over (damaged-put-back).
func TestSpoiltRootAndEntry(t *testing.T) {
	s := newStory(t)
	s.host("a")
	s.host("new")
	s.ready("a")
	s.ids("a")
	s.stop("a")
	root := s.o.must(s.root).text
	for _, text := range []string{"\x00garbage", "null"} {
		s.o.set(s.root, text)
		before := s.o.everything()
		s.start("a", "new")
		for _, name := range []string{"a", "new"} {
			s.exits(name, cli.ExitFailure, "damaged record: znode "+s.root+" holds", "make it empty, and the daemons of the cluster write it again")
		}
		s.onMachine(newMachine(t), "cluster", "status").Failed(t, cli.ExitFailure, "znode "+s.root+" holds", "make it empty")
		require.Equal(t, before, s.o.everything(), "nothing is written")
	}
	s.o.set(s.root, root)

	for _, text := range []string{"\x00garbage", ""} {
		s.o.set(s.o.path(0), text)
		s.ready("a")
		s.told("a", "the entry of worker 0 could not be read")
		s.o.set(s.o.path(0), text) // while it runs
		s.ready("new")
		s.is("new", 1)
		require.Eventually(t, func() bool { return s.o.must(s.o.path(0)).text != text }, eventually, tick)
		s.ids("a", "new")
		s.never("worker_fenced", "a")
		s.never(codeDataLost, "a", "new")
		s.stop("a", "new")
	}
	s.ready("a", "new")
	s.is("a", 0)
	s.o.set(s.root, "") // as the error says
	require.Eventually(t, func() bool { return s.o.must(s.root).text != "" }, eventually, tick)
	s.confirmed("a", "new")
	s.ids("a", "new")
}

// Java Leafs and leafds run side by side on one tree, each with a worker ID of its own, also where
// a daemon has the name of a Java Leaf's entry. A Java Leaf's entry is its own to write, dead or alive; the worker ID
// of one that is gone for good is free once the operator says so, but for 0, which a Java Leaf takes without asking.
func TestBesideJavaLeafs(t *testing.T) {
	t.Parallel()
	s := unmade(t).story(zookeepertest.Shared(t))
	same := s.host("same").machine.addr
	s.host("other")
	s.o.javaTree("com.x.leaf"+strings.TrimPrefix(s.root, "/"), "10.0.0.1:8080", same, "10.0.0.3:8080")
	s.init("--zk-forever-path", s.o.forever)
	stopped := s.o.forever + "/10.0.0.1:8080-0000000000"
	before := s.o.must(stopped)
	java := fmt.Sprintf("%s/%s-%010d", s.o.forever, same, 1) // of one that runs, and reports blindly
	for _, name := range []string{"same", "other"} {
		s.sets(name, "--zk-forever-path", s.o.forever)
		s.ready(name)
	}
	s.is("same", 3)
	s.is("other", 4)
	report := javaEntry(t, same, clock.MillisOf(time.Now()))
	s.o.set(java, report)
	require.ElementsMatch(t, []string{"10.0.0.1:8080-0000000000", same + "-0000000001", "10.0.0.3:8080-0000000002", entryName(3), entryName(4)}, s.o.entries())
	own := clitest.FromJSON[endpoint](t, s.o.must(s.o.path(3)).text)
	require.Equal(t, same, net.JoinHostPort(own.IP, own.Port), "what leafd writes reads as a Java Leaf's")

	// A Java Leaf that is new counts on, and so does leafd.
	p := s.o.create(s.o.forever+"/10.0.0.6:8080-", javaEntry(t, "10.0.0.6:8080", clock.MillisOf(time.Now())), persistentSequential)
	require.Contains(t, p, "-0000000005")
	s.host("third", "--zk-forever-path", s.o.forever)
	s.ready("third")
	s.is("third", 6)
	s.ids("same", "other", "third")
	s.stop("same")
	s.ready("same")
	s.is("same", 3)
	s.confirmed("same")
	require.Equal(t, report, s.o.must(java).text, "the Java Leaf alone wrote there")
	require.Equal(t, before, s.o.must(stopped))

	for _, id := range []string{"0", "1"} {
		require.Contains(t, s.says("worker", "release", id, "--force"), "of the Java Leaf")
	}
	require.NotContains(t, s.o.entries(), "10.0.0.1:8080-0000000000")
	s.host("heir", "--zk-forever-path", s.o.forever)
	s.ready("heir")
	s.is("heir", 1)
	require.Equal(t, http.StatusOK, s.hosts["same"].mustGet("/readyz").status)
}

// A start that ends while it settles gives its claim back: beside Java Leafs, where ZooKeeper's counter is all
// that there is, new directories that never get ready use up one number.
func TestStartsThatEndWhileTheySettleBesideJavaLeafs(t *testing.T) {
	s := ownStory(t)
	s.o.create(s.o.forever+"/10.0.0.9:8080-0000000000", javaEntry(t, "10.0.0.9:8080", clock.MillisOf(time.Now())), 0)
	for _, name := range []string{"a", "b", "c"} {
		s.host(name)
		s.settles(name)
		s.start(name)
		s.told(name, "waiting: settling", "worker 1 is claimed")
		s.stop(name)
	}
	require.Equal(t, []string{"10.0.0.9:8080-0000000000", entryName(1)}, s.o.entries())
	s.host("last")
	s.ready("last")
	s.is("last", 1)
}
