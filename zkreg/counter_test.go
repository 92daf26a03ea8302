package zkreg

import (
	"context"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zookeepertest"
)

// The counter's end can't be reached by creating 2^31 nodes. What the server
// then answers can be: numbers that stick at 2147483647, or are negative.
func TestCounterAtItsEnd(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	for name, suffix := range map[string]string{"stuck": "2147483647", "wrapped": "-2147483648", "wrapped to a small one": "-000000005"} {
		t.Run(name, func(t *testing.T) {
			cfg := daemonConfig(server, madeRoot(t, server), "a")
			r := openRegistry(t, cfg)
			r.commit = func(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
				for _, op := range ops {
					if create, ok := op.(*zk.CreateRequest); ok && create.Flags == zk.FlagSequence {
						create.Flags, create.Path = 0, create.Path+suffix
					}
				}
				return r.session.Multi(ctx, connection, ops...)
			}
			self := fresh(r)
			_, err := r.Look(bounded(t, patience), self)
			require.NoError(t, err)
			rec, err := r.Claim(bounded(t, patience), self, worker.DefaultLease)
			require.NoError(t, err)
			require.Zero(t, rec.WorkerID, "the lowest worker ID that is free")
			conn := server.Conn(t)
			for _, p := range []string{r.forever, r.temporary} {
				children, _, err := conn.Children(p)
				require.NoError(t, err)
				require.Len(t, children, 1)
			}
			// Somebody else's is no entry, and in nobody's way.
			_, err = conn.Create(r.prefixOf("other")+suffix, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			_, rec = claimed(t, daemonConfig(server, r.root, "b"))
			require.Less(t, rec.WorkerID, int64(10))
		})
	}
}

func TestStuckAtOwnNumber(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	cfg := daemonConfig(server, madeRoot(t, server), "a")
	r := openRegistry(t, cfg)
	conn := server.Conn(t)
	ensurePath(t, conn, r.forever)
	_, err := conn.Create(r.foreverOf(nameOf("a", 2147483647)), payloads(t, "good-java.json")["good-java"], 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	r.commit = func(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
		for _, op := range ops {
			if create, ok := op.(*zk.CreateRequest); ok && create.Flags == zk.FlagSequence {
				create.Flags, create.Path = 0, create.Path+"2147483647"
			}
		}
		return r.session.Multi(ctx, connection, ops...)
	}
	self := fresh(r)
	found, err := r.Look(bounded(t, patience), self)
	require.NoError(t, err)
	require.False(t, found.Known)
	rec, err := r.Claim(bounded(t, patience), self, worker.DefaultLease)
	require.NoError(t, err)
	require.Zero(t, rec.WorkerID)
}
