package zkreg

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/zookeepertest"
)

// The counter's end can't be reached by creating 2^31 nodes. What the server
// then answers can be: numbers that stick at 2147483647, or are negative.
func TestCounterAtItsEnd(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	conn := server.Conn(t)
	for name, tt := range map[string]struct {
		suffix string
		theirs string // whose entry it is that has the suffix from then on, or before
		first  bool
	}{
		"stuck":                        {"2147483647", "other", false},
		"wrapped":                      {"-2147483648", "other", false},
		"wrapped to a small one":       {"-000000005", "other", false},
		"stuck at one of our own name": {"2147483647", "a", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := openRegistry(t, daemonConfig(server, madeRoot(t, server), "a"))
			theirs := func() { put(t, conn, r.prefixOf(tt.theirs)+tt.suffix, payloads(t, "good-java.json")["good-java"]) }
			if tt.first {
				theirs()
			}
			r.session = hooked{r.session, func(ops []any, do func() ([]zk.MultiResponse, error)) ([]zk.MultiResponse, error) {
				for _, op := range ops {
					if create, ok := op.(*zk.CreateRequest); ok && create.Flags == zk.FlagSequence {
						create.Flags, create.Path = 0, create.Path+tt.suffix
					}
				}
				return do()
			}}
			require.Zero(t, claim1(t, r, fresh(r)).WorkerID, "the lowest worker ID that is free")
			if !tt.first { // and nothing else is left
				for _, p := range []string{r.forever, r.temporary} {
					children, _, err := conn.Children(p)
					require.NoError(t, err)
					require.Len(t, children, 1)
				}
				theirs()
			}
			// Somebody else's is in nobody's way.
			_, rec := claimed(t, daemonConfig(server, r.root, "b"))
			require.Less(t, rec.WorkerID, int64(10))
		})
	}
}
