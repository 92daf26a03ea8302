//go:build migration

package migration_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
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
	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/unique"
	"github.com/leafd/leafd/test/zookeepertest"
)

// Where the walk begins, and how long it is.
var (
	seed   = os.Getenv("LEAFDTEST_SEED")   // empty: the time
	rounds = os.Getenv("LEAFDTEST_ROUNDS") // empty: 15
)

const clockThreshold = 5 * time.Second // the default

func newSite(t *testing.T, server *zookeepertest.Server) *site {
	t.Helper()
	s := &site{
		t: t, leafd: proctest.Leafd(t), servers: server.Addr(), name: "com.example.leaf", conn: server.Conn(t),
		sets: map[loadtest.Mode]*unique.Set{loadtest.Snowflake: {}}, rate: 200,
	}
	return s
}

// The kinds of what walks.
const (
	aJava    = iota
	aLeafd   // keeps its data directory
	aRelease // with --release-on-stop, in a place where the directory goes now and then
)

// walker is one Java Leaf or leafd of the walk.
type walker struct {
	*host
	kind   int
	r      *rand.Rand
	ready  bool
	loaded bool
	told   []string // what became of it, since the last round
}

func (w *walker) String() string {
	return fmt.Sprintf("%s %s", [...]string{"java", "leafd", "leafd --release-on-stop"}[w.kind], w.port)
}

func (w *walker) command() []string {
	switch w.kind {
	case aJava:
		return w.javaCommand()
	case aRelease:
		return w.serveCommand("--release-on-stop")
	default:
		return w.serveCommand()
	}
}

// own is the name of the Java Leaf's entry.
func (w *walker) own() (string, error) {
	names, _, err := w.conn.Children(w.forever())
	if err != nil {
		return "", err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(name, ":"+w.port+"-") })
	if len(names) > 1 {
		return "", fmt.Errorf("%s has the entries %q", w, names)
	}
	return strings.Join(names, ""), nil
}

// up starts it, which has to succeed.
func (w *walker) up() error {
	was, own := w.worker, ""
	if w.kind == aJava {
		var err error
		if own, err = w.own(); err != nil {
			return err
		}
	}
	if err := w.start(w.command()); err != nil {
		return fmt.Errorf("%s does not start: %w", w, err)
	}
	w.ready = true
	if !w.loaded {
		w.loaded = true
		w.load()
	}
	w.told = append(w.told, fmt.Sprintf("started as %d", w.worker))
	switch {
	case w.kind == aJava:
		err := w.readTheTree()
		if line := map[bool]string{true: "[New NODE]", false: "[Old NODE]"}[own == ""]; !strings.Contains(w.runs.Log(), line) {
			err = errors.Join(err, fmt.Errorf("%s, entry %q, does not log %s", w, own, line))
		}
		if own != "" && number(own) != w.worker {
			err = errors.Join(err, fmt.Errorf("%s has the entry %s, and issues as %d", w, own, w.worker))
		}
		if now, e := w.own(); e != nil || number(now) != w.worker {
			err = errors.Join(err, e, fmt.Errorf("%s issues as %d, and its entry is %q", w, w.worker, now))
		}
		return err
	case w.worker == 0:
		return fmt.Errorf("%s issues as 0", w)
	case w.kind == aLeafd && was >= 0 && w.worker != was:
		return fmt.Errorf("%s issues as %d, after %d", w, w.worker, was)
	}
	return nil
}

// down ends it, and now and then something of it goes.
func (w *walker) down() error {
	signal := syscall.SIGTERM
	if w.r.IntN(3) == 0 {
		signal = syscall.SIGKILL
	}
	w.ready = false
	if err := w.runs.End(signal); err != nil {
		return err
	}
	w.told = append(w.told, signal.String())
	if w.kind == aJava && !w.t.Failed() && strings.Contains(w.runs.Log(), "Start node ERROR") {
		return fmt.Errorf("%s did not read the tree", w)
	}
	switch draw := w.r.IntN(6); {
	case w.kind == aJava && draw < 2:
		w.told = append(w.told, "lost workerID.properties")
		return os.RemoveAll(filepath.Join(w.dir, w.name))
	case w.kind == aJava && draw == 2:
		return w.retire()
	case w.kind == aRelease && draw < 3, w.kind == aLeafd && draw == 0:
		w.worker = -1
		w.told = append(w.told, "lost its directory")
		return os.RemoveAll(w.dir + "/data")
	case w.kind == aRelease:
		w.worker = -1 // released, perhaps, and another's
	}
	return nil
}

// retire has the operator free the worker ID of a Java Leaf that is gone.
func (w *walker) retire() error {
	own, err := w.own()
	if own == "" || err != nil {
		return err
	}
	id := number(own)
	if out, err := w.run("worker", "release", strconv.FormatInt(id, 10)); err == nil {
		return fmt.Errorf("worker release %d frees %s without --force: %s", id, own, out)
	}
	if now, err := w.own(); err != nil || now != own {
		return errors.Join(err, fmt.Errorf("the entry %s is %q after worker release without --force", own, now))
	}
	w.mu.Lock()
	w.retired[id] = true
	w.mu.Unlock()
	out, err := w.run("worker", "release", strconv.FormatInt(id, 10), "--force", "--yes")
	if err != nil {
		return fmt.Errorf("worker release %d --force: %w: %s", id, err, out)
	}
	if now, err := w.own(); err != nil || now != "" {
		return errors.Join(err, fmt.Errorf("the entry %q after worker release --force", now))
	}
	w.worker = -1
	w.told = append(w.told, fmt.Sprintf("%d released", id))
	return nil
}

func (w *walker) pause(most time.Duration) { time.Sleep(time.Duration(w.r.Int64N(int64(most)))) }

// step is what becomes of it in one round.
func (w *walker) step() error {
	w.told = nil
	w.pause(3 * time.Second)
	draw := w.r.IntN(10)
	if w.ready {
		if draw < 4 { // it goes on
			return nil
		}
		if err := w.down(); err != nil || draw < 6 { // and stays away
			return err
		}
	} else if draw == 0 { // stays away
		return nil
	}
	if draw == 9 { // killed, or stopped, at any moment of its start
		if err := w.launch(w.command()); err != nil {
			return err
		}
		w.told = append(w.told, "starts")
		w.pause(4 * time.Second)
		if err := w.down(); err != nil {
			return err
		}
	}
	return w.up()
}

// Java Leafs and leafds on one tree under load, started, stopped, killed and begun again at random, three of each: no ID comes
// twice, none has another's worker ID, and what ZooKeeper's transaction log tells is as auditor has it.
func TestTogether(t *testing.T) {
	begin, n := uint64(time.Now().UnixNano()), 15
	var err error
	if seed != "" {
		begin, err = strconv.ParseUint(seed, 10, 64)
		require.NoError(t, err)
	}
	if rounds != "" {
		n, err = strconv.Atoi(rounds)
		require.NoError(t, err)
	}
	t.Logf("LEAFDTEST_SEED=%d LEAFDTEST_ROUNDS=%d, real Java Leafs: %v", begin, n, realLeaf != "")
	logs := t.TempDir()
	server := zookeepertest.Start(t, "dataLogDir="+logs)
	s := newSite(t, server)
	s.retired = map[int64]bool{}
	s.ok("cluster", "init", "--new", "--yes")

	r := rand.New(rand.NewPCG(begin, 0))
	var all []*walker
	for i, kind := range []int{aJava, aJava, aJava, aLeafd, aLeafd, aRelease} {
		w := &walker{host: s.host(), kind: kind, r: rand.New(rand.NewPCG(begin, uint64(i)+1))}
		all = append(all, w)
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for round := range n {
		errs := make([]error, len(all))
		var group sync.WaitGroup
		for i, w := range all {
			group.Go(func() { errs[i] = w.step() })
		}
		group.Wait()
		for _, w := range all {
			t.Logf("round %d, %s: %s", round, w, strings.Join(w.told, ", "))
		}
		require.NoError(t, errors.Join(errs...))

		// All that run, now.
		hands := map[int64]*walker{}
		for _, w := range all {
			if !w.ready {
				continue
			}
			id, err := w.id()
			require.NoError(t, err, "%s", w)
			require.Equal(t, w.worker, id>>12&1023, "%s", w)
			require.Nil(t, hands[w.worker], "%d is %s's, too", w.worker, w)
			hands[w.worker] = w
		}
	}
	for _, w := range all {
		if w.ready {
			w.stop()
		}
	}
	t.Log(s.ok("worker", "list"))
	s.noneTwice(int64(n)) // one started late has few

	server.Stop(t)
	transactions, err := history(logs)
	require.NoError(t, err)
	a := auditor{forever: s.forever(), threshold: clockThreshold, released: s.retired}
	require.NoError(t, a.audit(transactions))
	t.Logf("%d transactions: %d writes of Java Leafs, %d of leafd, which took a worker ID %d times; %d Java Leafs released", len(transactions), a.javaWrites, a.leafdWrites, a.takes, len(s.retired))
	require.NotZero(t, a.javaWrites)
	require.NotZero(t, a.takes)
}

// count moves the tree's counter, until the next node's number is next.
func (s *site) count(next int64) {
	s.t.Helper()
	for {
		path, err := s.conn.Create(s.forever()+"/moved-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(s.t, err)
		require.NoError(s.t, s.conn.Delete(path, 0))
		require.Less(s.t, number(filepath.Base(path)), next)
		if number(filepath.Base(path)) == next-1 {
			return
		}
	}
}

// At the end of the worker IDs the last are used, and then no Java Leaf starts but those that have an entry; leafd takes what was
// released, a Java Leaf's worker ID too.
func TestTogetherAtTheLastWorkerIDs(t *testing.T) {
	s := newSite(t, zookeepertest.Start(t))
	s.ok("cluster", "init", "--new", "--yes")
	var hosts []*host
	for range 6 {
		hosts = append(hosts, s.host())
	}
	first, last, late, leafd, second, third := hosts[0], hosts[1], hosts[2], hosts[3], hosts[4], hosts[5]
	require.NoError(t, leafd.start(leafd.serveCommand("--release-on-stop")))
	was := leafd.worker
	s.count(1022)
	first.java()
	last.java()
	for _, h := range []*host{leafd, first, last} {
		h.load()
	}
	require.Equal(t, []int64{1022, 1023}, []int64{first.worker, last.worker})
	late.refused()
	require.Contains(t, s.javaEntries(), int64(1024))
	late.refused() // it has an entry
	second.full()
	for _, h := range []*host{first, last} {
		id := h.worker
		h.stop()
		h.java()
		require.Equal(t, id, h.worker)
	}

	leafd.stop()
	require.NoError(t, second.start(second.serveCommand()))
	require.Equal(t, was, second.worker, "released")
	third.full()

	// A Java Leaf that is gone for good.
	last.stop()
	require.Error(t, func() error { _, err := s.run("worker", "release", "1023"); return err }())
	s.ok("worker", "release", "1023", "--force", "--yes")
	require.NotContains(t, s.javaEntries(), int64(1023))
	time.Sleep(2*clockThreshold + time.Second) // its limit passes
	require.NoError(t, third.start(third.serveCommand()))
	require.Equal(t, int64(1023), third.worker)
	last.refused()
	third.stop()
	require.NoError(t, third.start(third.serveCommand()))
	require.Equal(t, int64(1023), third.worker)
	s.ok("worker", "list")
	for _, h := range []*host{first, second, third} {
		h.stop()
	}
	s.noneTwice(0)
}

// full starts leafd, for which there is no worker ID.
func (h *host) full() {
	h.t.Helper()
	require.NoError(h.t, h.launch(h.serveCommand()))
	select {
	case <-h.runs.Done():
	case <-time.After(patience):
		require.Fail(h.t, "it runs")
	}
	require.Equal(h.t, 5, h.runs.ExitCode(), h.runs.Log())
}

// After ZooKeeper lost its data the leafds put their entries back, and no Java Leaf starts that could take a worker ID in use.
func TestTogetherAfterALoss(t *testing.T) {
	server := zookeepertest.Start(t)
	s := newSite(t, server)
	s.ok("cluster", "init", "--new", "--yes")
	var hosts []*host
	for range 4 {
		hosts = append(hosts, s.host())
	}
	java, fresh, leafds := hosts[0], hosts[1], hosts[2:]
	java.java()
	java.load()
	for _, h := range leafds {
		require.NoError(t, h.start(h.serveCommand()))
		h.load()
	}
	java.stop()
	server.Wipe(t)
	require.Eventually(t, func() bool {
		names, _, err := s.conn.Children(s.forever())
		for _, h := range leafds {
			err = errors.Join(err, func() error {
				if !slices.Contains(names, fmt.Sprintf("worker-%010d", h.worker)) {
					return errors.New("not back")
				}
				return nil
			}())
		}
		return err == nil
	}, patience, 50*time.Millisecond)
	for range 2 { // the second time each has an entry
		java.refused()
		fresh.refused()
	}
	for _, h := range leafds {
		was := h.worker
		_, err := h.id()
		require.NoError(t, err)
		h.stop()
		require.NoError(t, h.start(h.serveCommand()))
		require.Equal(t, was, h.worker)
	}

	for _, h := range leafds {
		h.stop()
	}
	s.noneTwice(0)
}

// Where a Java Leaf is the first to come after the loss it makes the tree, and has 0, which no leafd takes. The first leafd that
// is back keeps further Java Leafs from the worker IDs of those that are not.
func TestTogetherWhereAJavaLeafIsFirstAfterALoss(t *testing.T) {
	server := zookeepertest.Start(t)
	s := newSite(t, server)
	s.ok("cluster", "init", "--new", "--yes")
	java, fresh, early, late := s.host(), s.host(), s.host(), s.host()
	require.NoError(t, early.start(early.serveCommand()))
	java.java()
	require.NoError(t, late.start(late.serveCommand()))
	for _, h := range []*host{java, early, late} {
		h.load()
	}
	time.Sleep(time.Second)
	for _, h := range []*host{java, early, late} {
		h.stop()
	}
	server.Wipe(t)
	s.conn = server.Conn(t) // the one before has seen more than there is
	java.java()
	require.Zero(t, java.worker)
	for _, h := range []*host{early, late} {
		was := h.worker
		require.NoError(t, h.start(h.serveCommand()))
		require.Equal(t, was, h.worker)
		fresh.refused()
	}
	s.noneTwice(0)
}

// recover is for a restored ZooKeeper: those that have an entry go on, and no other Java Leaf starts.
func TestTogetherAfterRecover(t *testing.T) {
	s := newSite(t, zookeepertest.Start(t))
	s.ok("cluster", "init", "--new", "--yes")
	java, fresh, leafd := s.host(), s.host(), s.host()
	java.java()
	require.NoError(t, leafd.start(leafd.serveCommand()))
	s.ok("cluster", "recover", "--yes")
	fresh.refused()
	java.stop()
	was := java.worker
	java.java()
	require.Equal(t, was, java.worker)
	was = leafd.worker
	leafd.stop()
	require.NoError(t, leafd.start(leafd.serveCommand()))
	require.Equal(t, was, leafd.worker)
	s.noneTwice(0)
}
