package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/zookeepertest"
)

// beforePieces is the record of leafd before there were pieces, all of it.
type beforePieces struct {
	Cluster    string       `json:"cluster"`
	Node       string       `json:"node"`
	WorkerID   int64        `json:"worker_id"`
	Layout     string       `json:"layout"`
	Epoch      clock.Millis `json:"epoch"`
	Timestamp  clock.Millis `json:"timestamp"`
	Ceiling    clock.Millis `json:"ceiling"`
	Owner      string       `json:"owner"`
	Registered clock.Millis `json:"registered"`
	Home       string       `json:"home"`
	Lineage    []string     `json:"lineage,omitempty"`
}

// left makes the data directory and the entry that leafd before there were pieces leaves,
// which reported ago and recorded a ceiling lead ahead of that, or the end of its IDs.
func (m *machine) left(o *onlooker, id int64, ago, lead time.Duration, lineage ...string) (path string, ceiling clock.Millis) {
	m.t.Helper()
	opened, err := cache.Open(m.dataDir())
	require.NoError(m.t, err)
	home, err := opened.DirectoryID()
	require.NoError(m.t, err)
	require.NoError(m.t, opened.Close())
	at := m.now().Add(-ago)
	r := beforePieces{
		Cluster: "c1", Node: m.addr, WorkerID: id, Layout: "41+10+12", Epoch: snowflake.DefaultEpoch, Timestamp: at, Ceiling: at.Add(lead),
		Owner: fmt.Sprintf("owner %d", id), Registered: at, Home: home, Lineage: lineage,
	}
	body, err := json.MarshalIndent(r, "  ", "  ")
	require.NoError(m.t, err)
	file := fmt.Sprintf("{\n  \"leafd\": 1,\n  \"sha256\": \"%x\",\n  \"record\": %s\n}\n", sha256.Sum256(body), body)
	require.NoError(m.t, os.WriteFile(filepath.Join(m.dataDir(), "worker.json"), []byte(file), 0o600))
	ip, port, err := net.SplitHostPort(m.addr)
	require.NoError(m.t, err)
	entry := znode{IP: ip, Port: port, Timestamp: at, Ceiling: r.Ceiling, Owner: r.Owner, State: "active"}
	if len(lineage) > 0 { // its last life recorded its owner, and ended before it reported
		entry.Owner = lineage[0]
	}
	path = fmt.Sprintf("%s/%s-%010d", o.forever, m.addr, id)
	o.create(path, jsonText(m.t, entry), 0)
	return path, r.Ceiling
}

// Directories and entries of the release before are adopted one host at a time: each keeps
// its worker ID and goes on above what it recorded, also where it starts without ZooKeeper;
// those that are still to come are nobody's.
func TestAdoptedOneHostAtATime(t *testing.T) {
	t.Parallel()
	c := unmade(t)
	o := c.watch()
	o.create(o.root, `{"cluster":"c1","epoch":1288834974657,"layout":"41+10+12"}`, 0)
	o.create(o.forever, "", 0)
	o.create(o.temporary, "", 0)
	proxy := zookeepertest.NewProxy(t, c.servers[0])
	offline := c.behind(proxy, brisk()...)
	machines := []*machine{c.machine(steady()...), c.machine(steady()...), c.machine(steady()...), offline}
	paths, ceilings := make([]string, 5), make([]clock.Millis, 5)
	paths[0], ceilings[0] = machines[0].left(o, 0, 30*time.Second, -time.Second) // a clean stop
	paths[1], ceilings[1] = machines[1].left(o, 1, time.Second, 5*time.Second)   // a crash
	paths[2], ceilings[2] = machines[2].left(o, 2, 30*time.Second, 6*time.Second, "owner before 2")
	paths[3], ceilings[3] = offline.left(o, 3, time.Second, 4*time.Second)
	paths[4], _ = c.machine().left(o, 4, 100*24*time.Hour, 6*time.Second) // gone for long
	proxy.Down(t)

	var daemons []*child
	var all []int64
	adopted := func(i int) {
		l, entry := daemons[i], o.must(paths[i]).payload(t)
		require.EqualValues(t, i, l.info().ID)
		require.Equal(t, l.info().Instance, entry.Instance)
		require.Equal(t, l.info().Owner, entry.Owner)
		require.Greater(t, entry.Limit, machines[i].now().Add(5*time.Hour))
		require.Zero(t, l.raised()["record_set_aside"]+l.raised()["worker_id_lost"])
	}
	for i, m := range machines {
		untouched := o.must(paths[(i+1)%5])
		l := m.ready()
		daemons = append(daemons, l)
		got := l.batch("/api/snowflake/get/a?n=1000")
		require.GreaterOrEqual(t, timeOf(t, slices.Min(got)), ceilings[i])
		all = append(all, got...)
		if i > 0 {
			all = append(all, daemons[i-1].batch("/api/snowflake/get/a?n=1000")...)
		}
		if m != offline {
			adopted(i)
			require.Equal(t, untouched, o.must(paths[(i+1)%5]))
			continue
		}
		require.Equal(t, map[string]int{codeLost: 1}, l.raised())
		require.Zero(t, l.info().Limit, "of before there were pieces: no end")
		proxy.Up(t)
		l.awaitLog(lineConfirmed)
		require.Eventually(t, func() bool { return l.info().Limit > 0 }, eventually, tick)
		adopted(i)
	}
	fresh := c.machine(steady()...).ready()
	require.Greater(t, fresh.info().ID, int64(4), "an entry without a limit is nobody's to take")
	requireDistinct(t, append(all, fresh.batch("/api/snowflake/get/a?n=1000")...))
	for i, l := range daemons {
		require.Equal(t, http.StatusOK, l.mustGet("/readyz").status)
		require.Equal(t, cli.ExitOK, l.stop())
		l = machines[i].ready()
		require.EqualValues(t, i, l.info().ID)
		require.Equal(t, cli.ExitOK, l.stop())
	}
	require.Equal(t, cli.ExitOK, fresh.stop())
}
