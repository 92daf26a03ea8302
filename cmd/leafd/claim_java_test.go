package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

// endpoint is the payload of a Java Leaf's node, all of it.
type endpoint struct {
	IP        string       `json:"ip"`
	Port      string       `json:"port"`
	Timestamp clock.Millis `json:"timestamp"`
}

// javaEntry is what a Java Leaf at address writes.
func javaEntry(t *testing.T, address string, at clock.Millis) string {
	t.Helper()
	ip, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	return jsonText(t, endpoint{ip, port, at})
}

// javaTree makes the tree of a Java Leaf cluster with these addresses, as it comes to
// be: sequential nodes, one after the other.
func (o *onlooker) javaTree(leafName string, addresses ...string) {
	o.t.Helper()
	o.forever = "/snowflake/" + leafName + "/forever"
	_, _ = o.make("/snowflake", "", 0) // another test's, perhaps: then it is there
	o.create("/snowflake/"+leafName, "", 0)
	o.create(o.forever, "", 0)
	for _, address := range addresses {
		o.create(o.forever+"/"+address+"-", javaEntry(o.t, address, clock.MillisOf(time.Now()).Add(-time.Second)), persistentSequential)
	}
}

// javaReader reads the tree as a Java Leaf does when it starts: the worker IDs by the part of each
// name before its dash, and the three fields of each payload, each of its type.
func (o *onlooker) javaReader() (workerIDs map[string][]int, fields map[int]endpoint) {
	o.t.Helper()
	workerIDs, fields = map[string][]int{}, map[int]endpoint{}
	for _, name := range o.entries() {
		parts := strings.Split(name, "-")
		workerID, err := strconv.Atoi(parts[1])
		require.NoError(o.t, err, name)
		workerIDs[parts[0]] = append(workerIDs[parts[0]], workerID)
		text := o.must(o.forever + "/" + name).text
		var raw map[string]json.RawMessage
		require.NoError(o.t, json.Unmarshal([]byte(text), &raw), text)
		var e endpoint
		require.NoError(o.t, json.Unmarshal(raw["ip"], &e.IP), text)
		require.NoError(o.t, json.Unmarshal(raw["port"], &e.Port), text) // a string, in Java's spelling
		require.NoError(o.t, json.Unmarshal(raw["timestamp"], &e.Timestamp), text)
		fields[workerID] = e
	}
	return workerIDs, fields
}

// Java Leafs and leafds run side by side on one tree, each with a worker ID of its own, also where
// a daemon has the name of a Java Leaf's entry. A Java Leaf's entry is its own to write, dead or alive.
func TestBesideJavaLeafs(t *testing.T) {
	t.Parallel()
	c := unmade(t)
	o := c.watch()
	same, other := c.machine(), c.machine()
	o.javaTree("com.x.leaf"+strings.TrimPrefix(c.root, "/"), "10.0.0.1:8080", same.addr, "10.0.0.3:8080")
	c.init("--zk-forever-path", o.forever)
	stopped := o.forever + "/10.0.0.1:8080-0000000000"
	before := o.must(stopped)
	java := newJavaLeaf(t, o, fmt.Sprintf("%s/%s-%010d", o.forever, same.addr, 1), same.addr)
	settings := append(frequent(), "--zk-forever-path", o.forever)

	l, l2 := same.ready(settings...), other.ready(settings...)
	require.ElementsMatch(t, []int64{3, 4}, []int64{l.info().ID, l2.info().ID})
	workerIDs, fields := o.javaReader()
	require.Equal(t, map[string][]int{"10.0.0.1:8080": {0}, same.addr: {1}, "10.0.0.3:8080": {2}, "worker": {3, 4}}, workerIDs)
	own := fields[int(l2.info().ID)]
	require.Equal(t, other.addr, net.JoinHostPort(own.IP, own.Port), "what leafd writes reads as a Java Leaf's")
	require.Empty(t, o.names(o.root+"/leaf_forever"), "one place for the entries")
	require.ElementsMatch(t, []string{same.addr, other.addr}, o.live())

	// A Java Leaf that is new counts on, and so does leafd.
	p := o.create(o.forever+"/10.0.0.6:8080-", javaEntry(t, "10.0.0.6:8080", clock.MillisOf(time.Now())), persistentSequential)
	require.Contains(t, p, "-0000000005")
	l3 := c.machine().ready(settings...)
	require.Equal(t, int64(6), l3.info().ID)

	all := slices.Concat(l.batch("/api/snowflake/get/a?n=1000"), l2.batch("/api/snowflake/get/a?n=1000"), l3.batch("/api/snowflake/get/a?n=1000"))
	was := l.info().ID
	require.Equal(t, cli.ExitOK, l.stop())
	l = same.ready(settings...)
	require.Equal(t, was, l.info().ID)
	requireDistinct(t, append(all, l.batch("/api/snowflake/get/a?n=1000")...))
	for _, each := range []*child{l, l2, l3} {
		require.Equal(t, http.StatusOK, each.mustGet("/readyz").status)
		require.Zero(t, each.raised()[codeFenced])
		require.Equal(t, cli.ExitOK, each.stop())
	}
	last := java.stop()
	require.Equal(t, last, o.must(java.path).text, "the Java Leaf alone wrote there")
	require.Equal(t, before, o.must(stopped))

	// The worker ID of a Java Leaf that is gone for good, once the operator says so, and but for 0,
	// which a Java Leaf takes without asking.
	for _, id := range []string{"0", "1"} {
		require.Contains(t, c.onMachine(newMachine(t), "worker", "release", id, "--force", "--yes", "--clock-threshold", "10ms").OK(t), "of the Java Leaf")
	}
	require.NotContains(t, o.entries(), "10.0.0.1:8080-0000000000")
	heirs := []*child{c.machine().ready(settings...), c.machine().ready(settings...)}
	require.ElementsMatch(t, []int64{1, 9}, []int64{heirs[0].info().ID, heirs[1].info().ID})
	for _, each := range heirs {
		require.Equal(t, cli.ExitOK, each.stop())
	}
}

// javaLeaf reports like a Java Leaf that runs: blindly, to the node that it has.
type javaLeaf struct {
	t       *testing.T
	path    string
	done    chan struct{}
	group   sync.WaitGroup
	written string // the last; read after stop
	err     error  // as written
}

func newJavaLeaf(t *testing.T, o *onlooker, path, address string) *javaLeaf {
	t.Helper()
	j := &javaLeaf{t: t, path: path, done: make(chan struct{})}
	j.group.Go(func() {
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for {
			j.written = javaEntry(t, address, clock.MillisOf(time.Now()))
			if j.err = o.write(path, j.written, -1); j.err != nil {
				return
			}
			select {
			case <-j.done:
				return
			case <-tick.C:
			}
		}
	})
	t.Cleanup(func() {
		select {
		case <-j.done:
		default:
			close(j.done)
		}
		j.group.Wait()
	})
	return j
}

func (j *javaLeaf) stop() (written string) {
	j.t.Helper()
	close(j.done)
	j.group.Wait()
	require.NoError(j.t, j.err)
	return j.written
}
