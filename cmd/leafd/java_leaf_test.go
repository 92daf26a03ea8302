package main

import (
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
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
