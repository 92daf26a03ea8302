package zkreg_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/zkreg"
)

// A Java Leaf that comes first after a loss makes the parent of the entries, and its counter begins at 0: it is moved beyond all
// worker IDs of Java Leafs before the root names that parent, once, and not where leafd is alone.
func TestCounterOfAParentThatAJavaLeafMade(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	for name, shared := range map[string]bool{"shared": true, "leafd's own": false} {
		t.Run(name, func(t *testing.T) {
			cfg := zkreg.Config{Servers: []string{server.Addr()}, Root: server.NewRoot(t), Layout: snowflake.DefaultLayout(), Clock: clock.System()}
			forever := cfg.Root + "/leaf_forever"
			if shared {
				forever = cfg.Root + "java/forever"
				cfg.ForeverPath = forever
			}
			d, err := zkreg.OpenDirectory(cfg)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, d.Close()) })
			_, err = d.Init(t.Context(), 168*time.Hour, true)
			require.NoError(t, err)

			next := func() string {
				path, err := conn.Create(forever+"/10.0.0.1:8080-", []byte(`{"ip":"10.0.0.1","port":"8080","timestamp":1}`), zk.FlagSequence, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				return strings.TrimPrefix(path, forever+"/10.0.0.1:8080-")
			}
			require.Equal(t, "0000000000", next())
			require.NoError(t, conn.Delete(forever+"/10.0.0.1:8080-0000000000", -1))
			require.NoError(t, conn.Delete(forever, -1))
			_, err = conn.Create(forever, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			require.Equal(t, "0000000000", next())

			s, err := d.Open(t.Context())
			require.NoError(t, err)
			require.Equal(t, int64(1), s.Losses)
			require.Equal(t, s.Root.Parent, s.Parent)
			if !shared {
				require.Equal(t, "0000000001", next())
				return
			}
			require.Equal(t, "0000001025", next())
			_, err = d.Open(t.Context())
			require.NoError(t, err)
			require.Equal(t, "0000001026", next())
		})
	}
}
