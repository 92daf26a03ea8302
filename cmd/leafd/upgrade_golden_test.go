package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
)

// golden is what the release before pieces has left: see its README.
const golden = "../../testdata/upgrade"

// goldenTimes are the times in what it has left.
var goldenTimes = regexp.MustCompile(`("(?:timestamp|ceiling|registered)": ?)(\d+)`)

// moved returns text with all its times later by d.
func moved(t *testing.T, text string, d time.Duration) string {
	t.Helper()
	return goldenTimes.ReplaceAllStringFunc(text, func(field string) string {
		parts := goldenTimes.FindStringSubmatch(field)
		at, err := strconv.ParseInt(parts[2], 10, 64)
		require.NoError(t, err)
		return fmt.Sprint(parts[1], int64(clock.Millis(at).Add(d)))
	})
}

// firstVersion is the record file of that release for a record's text.
func firstVersion(record string) string {
	return fmt.Sprintf("{\n  \"leafd\": 1,\n  \"sha256\": \"%x\",\n  \"record\": %s\n}\n", sha256.Sum256([]byte(record)), record)
}

// goldenRecord returns the record of a host's file, as text.
func goldenRecord(t *testing.T, host string) string {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(golden, host, "worker.json"))
	require.NoError(t, err)
	_, record, _ := strings.Cut(string(file), `"record": `)
	record = strings.TrimSuffix(record, "\n}\n")
	require.Equal(t, string(file), firstVersion(record), "it is as that release wrote it")
	return record
}

// upgraded is a host that runs this release on a directory of the one before.
type upgraded struct {
	m       *machine
	was     worker.Record
	path    string // of its entry
	started *child
	ld      *load
}

// leave puts a host's directory, with its times later by d, into the machine.
func (u *upgraded) leave(t *testing.T, host string, d time.Duration) {
	t.Helper()
	dir, err := cache.Open(u.m.dataDir())
	require.NoError(t, err)
	home, err := dir.DirectoryID()
	require.NoError(t, err)
	require.NoError(t, dir.Close())
	record := moved(t, goldenRecord(t, host), d)
	record = regexp.MustCompile(`"home": "\w+"`).ReplaceAllString(record, `"home": "`+home+`"`)
	record = strings.ReplaceAll(record, "127.0.0.1:", "127.8.8.8:") // the peers are not those of other tests
	require.NoError(t, json.Unmarshal([]byte(record), &u.was))
	for _, name := range []string{"leafd.lock", "worker.saved"} {
		text, err := os.ReadFile(filepath.Join(golden, host, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(u.m.dataDir(), name), text, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(u.m.dataDir(), "worker.json"), []byte(firstVersion(record)), 0o600))
}

// Directories and entries of the release before pieces are adopted, one host after the
// other under load: none gets another worker ID, and what is not upgraded yet is left
// alone, also by a new node.
func TestUpgradeUnderLoad(t *testing.T) {
	underLoad(t)
	c := unmade(t)
	o := c.watch()
	proxy := zookeepertest.NewProxy(t, c.servers[0])
	hosts := []string{"leaf-a", "leaf-b", "leaf-c"}
	var newest clock.Millis
	for _, host := range hosts {
		var r worker.Record
		require.NoError(t, json.Unmarshal([]byte(goldenRecord(t, host)), &r))
		newest = max(newest, r.Timestamp)
	}
	by := newMachine(t).now().Sub(newest) - 2*time.Second
	text, err := os.ReadFile(golden + "/tree.json")
	require.NoError(t, err)
	var tree map[string]string
	require.NoError(t, json.Unmarshal(text, &tree))
	paths := make([]string, 0, len(tree))
	for path := range tree {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		o.create(strings.Replace(path, "/leaf", c.root, 1), moved(t, tree[path], by), 0)
	}
	var all []*upgraded
	for id, host := range hosts {
		u := &upgraded{m: c.behind(proxy, append(brisk(), "--node", host)...), path: fmt.Sprintf("%s/%s-%010d", o.forever, host, id)}
		u.leave(t, host, by)
		require.EqualValues(t, id, u.was.WorkerID)
		all = append(all, u)
	}
	require.NotEmpty(t, all[2].was.PriorOwners)

	var newcomers []*load
	for id, u := range all {
		waiting := map[string]seenNode{}
		for _, other := range all[id+1:] {
			waiting[other.path] = o.must(other.path)
		}
		if id == 2 { // the last while ZooKeeper is away
			proxy.Down(t)
		}
		u.started = u.m.ready()
		u.ld = newLoad(u.started, "/api/snowflake/get/order?n=50", "/api/snowflake/get/pay")
		if id == 2 {
			proxy.Up(t)
			u.started.awaitLog(lineConfirmed)
		} else {
			newcomer := c.host(brisk()...).ready()
			require.GreaterOrEqual(t, newcomer.info().ID, int64(len(hosts)))
			newcomers = append(newcomers, newLoad(newcomer, "/api/snowflake/get/order?n=50"))
		}
		for _, earlier := range all[:id+1] {
			earlier.ld.flows(t, 1000)
		}
		for path, before := range waiting {
			require.Equal(t, before, o.must(path), "not upgraded yet")
		}
	}
	var ids []int64
	for _, newcomer := range newcomers {
		newcomer.flows(t, 1000)
		ids = append(ids, newcomer.unharmed(t)...)
	}
	for id, u := range all {
		got := u.started.info()
		require.EqualValues(t, id, got.ID)
		entry := o.must(u.path).payload(t)
		require.Equal(t, got.Instance, entry.Instance)
		require.Greater(t, entry.Limit, u.m.now())
		issued := u.ld.unharmed(t)
		require.GreaterOrEqual(t, timeOf(t, slices.Min(issued)), u.was.Ceiling, "above what the release before has issued")
		ids = append(ids, issued...)
		require.NotContains(t, u.started.raised(), "record_set_aside")
		require.NotContains(t, u.started.raised(), codeFenced)
		require.Equal(t, cli.ExitOK, u.started.stop())
		r, err := cache.Peek(u.m.dataDir())
		require.NoError(t, err)
		require.Equal(t, got.Instance, r.Instance)
		require.Empty(t, r.PriorOwners)
		// The release before looks at the version alone, and refuses each but its own.
		file, err := os.ReadFile(filepath.Join(u.m.dataDir(), "worker.json"))
		require.NoError(t, err)
		var document struct{ Leafd int }
		require.NoError(t, json.Unmarshal(bytes.TrimRight(file, "\x00"), &document))
		require.Equal(t, 2, document.Leafd)
	}
	require.Len(t, o.entries(), len(hosts)+len(newcomers))
	requireDistinct(t, ids)
}
