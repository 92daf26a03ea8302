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
	"github.com/leafd/leafd/test/clitest"
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

// javaReader reads the tree as a Java Leaf at address does when it starts: the worker
// ID of each address, by the parts of the name around its dash, and its own node's
// three fields, each of its type.
func (o *onlooker) javaReader(address string) (workerIDs map[string]int, own endpoint) {
	o.t.Helper()
	workerIDs = map[string]int{}
	for _, name := range o.entries() {
		parts := strings.Split(name, "-")
		workerID, err := strconv.Atoi(parts[1])
		require.NoError(o.t, err, name)
		workerIDs[parts[0]] = workerID
		if parts[0] != address {
			continue
		}
		text := o.must(o.forever + "/" + name).text
		var fields map[string]json.RawMessage
		require.NoError(o.t, json.Unmarshal([]byte(text), &fields), text)
		require.NoError(o.t, json.Unmarshal(fields["ip"], &own.IP), text)
		require.NoError(o.t, json.Unmarshal(fields["port"], &own.Port), text) // a string, in Java's spelling
		require.NoError(o.t, json.Unmarshal(fields["timestamp"], &own.Timestamp), text)
	}
	return workerIDs, own
}

// A Java Leaf cluster moves over host by host: the node keeps its worker ID, takes up where
// the Java Leaf may have ended, and what it writes reads as a Java Leaf's.
func TestMovingOverFromJavaLeaf(t *testing.T) {
	t.Parallel()
	c := unmade(t)
	o := c.watch()
	moved, running := c.machine(), c.machine()
	o.javaTree("com.x.leaf"+strings.TrimPrefix(c.root, "/"), "10.0.0.1:8080", "10.0.0.2:8080", running.addr, moved.addr, "10.0.0.3:8080")
	c.init("--zk-forever-path", o.forever)
	path := fmt.Sprintf("%s/%s-%010d", o.forever, moved.addr, 3)
	before := o.must(path)
	foreign := []string{o.forever + "/10.0.0.1:8080-0000000000", o.forever + "/10.0.0.2:8080-0000000001", o.forever + "/10.0.0.3:8080-0000000004"}
	var untouched []seenNode
	for _, p := range foreign {
		untouched = append(untouched, o.must(p))
	}
	settings := append(frequent(), "--zk-forever-path", o.forever)

	// The Java Leaf of one address runs still: it writes its node whatever stands there.
	java := newJavaLeaf(t, o, fmt.Sprintf("%s/%s-%010d", o.forever, running.addr, 2), running.addr)
	early := running.start(settings...)

	l := moved.ready(settings...)
	require.Equal(t, int64(3), l.info().ID)
	l.awaitLog("unclean", "ceiling")
	all := l.batch("/api/snowflake/get/a?n=1000")
	reported := clitest.FromJSON[endpoint](t, before.text).Timestamp
	require.GreaterOrEqual(t, timeOf(t, slices.Min(all)), reported.Add(6*time.Second), "a Java Leaf issues on after its last report")
	after := o.must(path)
	require.Equal(t, before.created, after.created, "the entry is the same one")
	workerIDs, own := o.javaReader(moved.addr)
	require.Equal(t, map[string]int{"10.0.0.1:8080": 0, "10.0.0.2:8080": 1, running.addr: 2, moved.addr: 3, "10.0.0.3:8080": 4}, workerIDs)
	require.Equal(t, moved.addr, net.JoinHostPort(own.IP, own.Port))
	require.Greater(t, own.Timestamp, reported)
	require.Empty(t, o.names(o.root+"/leaf_forever"), "one place for the entries")
	require.Equal(t, []string{moved.addr}, o.live())

	newcomer := c.machine().ready(settings...)
	require.Equal(t, int64(5), newcomer.info().ID)
	workerIDs, _ = o.javaReader(newcomer.addr)
	require.Equal(t, 5, workerIDs[newcomer.addr])
	all = append(all, newcomer.batch("/api/snowflake/get/a?n=1000")...)

	early.exits(cli.ExitHeld, "its Java Leaf is not stopped yet")
	last := java.stop()
	require.Equal(t, last, o.must(java.path).text, "the Java Leaf alone wrote there")
	l2 := running.ready(settings...)
	require.Equal(t, int64(2), l2.info().ID)
	got := l2.batch("/api/snowflake/get/a?n=1000")
	require.GreaterOrEqual(t, timeOf(t, slices.Min(got)), clitest.FromJSON[endpoint](t, last).Timestamp.Add(6*time.Second))
	all = append(all, got...)
	requireDistinct(t, all)

	for i, p := range foreign {
		require.Equal(t, untouched[i], o.must(p))
	}
	for _, each := range []*child{l, l2, newcomer} {
		require.Equal(t, http.StatusOK, each.mustGet("/readyz").status)
		require.Equal(t, cli.ExitOK, each.stop())
	}
	// Where the IDs end is recorded for the next start, not guessed.
	l = moved.ready(settings...)
	require.Equal(t, int64(3), l.info().ID)
	require.False(t, l.hasLogged("unclean"), l.Log())
	require.Equal(t, cli.ExitOK, l.stop())
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
