package zkreg

import (
	"maps"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
)

// stats are p and all below it, as they are; an empty map where there is no p.
func stats(t testing.TB, conn *zk.Conn, p string) map[string]zk.Stat {
	t.Helper()
	found, stat, err := conn.Exists(p)
	require.NoError(t, err)
	all := map[string]zk.Stat{}
	if !found {
		return all
	}
	all[p] = *stat
	children, _, err := conn.Children(p)
	require.NoError(t, err)
	for _, child := range children {
		maps.Copy(all, stats(t, conn, p+"/"+child))
	}
	return all
}

// Everything a daemon writes is tried, at every state of the tree, and nothing of it is
// done.
func TestTrialWritesNothing(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	cfg := daemonConfig(server, server.NewRoot(t)+"/deep/leaf", "n")
	d := directory(t, cfg)
	try := func(workerID int64, says string) {
		t.Helper()
		before := stats(t, conn, cfg.Root[:len(cfg.Root)-len("/deep/leaf")])
		require.NoError(t, d.Trial(bounded(t, patience), workerID), says)
		require.Equal(t, before, stats(t, conn, cfg.Root[:len(cfg.Root)-len("/deep/leaf")]), says)
	}
	require.ErrorIs(t, d.Trial(bounded(t, patience), worker.NoWorkerID), worker.ErrNoCluster)
	initCluster(t, cfg)
	try(worker.NoWorkerID, "nobody was there")
	r, me := claimed(t, cfg)
	s, do := decided(t, r, me)
	require.Equal(t, worker.Resume, do)
	require.Len(t, stats(t, conn, cfg.Root), 6, "root, three parents, entry and live node")
	try(me.WorkerID, "beside the running daemon")
	try(me.WorkerID+1, "of one without an entry")
	_, err := r.Write(bounded(t, patience), s, me, worker.StateActive)
	require.NoError(t, err, "it goes on reporting: its versions are what they were")
	require.Len(t, stats(t, conn, cfg.Root), 6)
}

// One missing right each.
func TestTrialNamesWhatIsRefused(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	const all, none = zk.PermAll, zk.PermRead
	for _, tc := range []struct {
		name                                      string
		root, forever, temporary, entry, released int32 // rights of world:anyone; 0: the node is missing
		needs                                     string
	}{
		{"all", all, all, all, all, all, ""},
		{"all, nobody was there", all, all, all, 0, all, ""},
		{"root not writable", none, all, all, 0, all, "set /leaf:"},
		{"nothing below the parent", all, zk.PermRead | zk.PermWrite, all, 0, all, "create /leaf/leaf_forever/doctor-"},
		{"parent not writable, which nobody does", all, all &^ zk.PermWrite, all, 0, all, ""},
		{"no removal", all, all &^ zk.PermDelete, all, 0, all, "remove /leaf/leaf_forever/doctor-"},
		{"our entry is another's", all, all, all, zk.PermRead, all, "set /leaf/leaf_forever/worker-0000000003:"},
		{"no loss is noted", all, all, all &^ zk.PermWrite, 0, all, "set /leaf/leaf_temporary:"},
		{"nobody may live", all, all, all &^ zk.PermCreate, 0, all, "create /leaf/leaf_temporary/doctor-"},
		{"nobody may leave", all, all, all &^ zk.PermDelete, 0, all, "remove /leaf/leaf_temporary/doctor-"},
		{"no time", all, all, all, 0, all &^ zk.PermWrite, "set /leaf/leaf_released:"},
		{"no hints", all, all, all, 0, all &^ zk.PermCreate, "create /leaf/leaf_released/doctor-"},
		{"hints for ever", all, all, all, 0, all &^ zk.PermDelete, "remove /leaf/leaf_released/doctor-"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := server.NewRoot(t)
			cfg := daemonConfig(server, root, "n")
			paths := []string{root, root + "/leaf_forever", root + "/leaf_temporary", root + "/leaf_forever/worker-0000000003", root + "/leaf_released"}
			rights := []int32{tc.root, tc.forever, tc.temporary, tc.entry, tc.released}
			d := directory(t, cfg)
			for i, data := range [][]byte{encode(d.newRoot("c", worker.DefaultLease, 0)), nil, nil, payloads(t, "good-piece.json")["good-piece"], nil} {
				if rights[i] != 0 {
					put(t, conn, paths[i], data)
				}
			}
			for i, p := range paths {
				if rights[i] != 0 {
					_, err := conn.SetACL(p, zk.WorldACL(rights[i]), -1)
					require.NoError(t, err)
				}
			}
			before := stats(t, conn, root)
			err := d.Trial(bounded(t, patience), 3)
			require.Equal(t, before, stats(t, conn, root))
			if tc.needs == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrDenied)
			require.Regexp(t, tc.needs, strings.ReplaceAll(err.Error(), root, "/leaf"))
		})
	}
}
