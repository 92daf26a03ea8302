package zkreg

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
	"github.com/leafd/leafd/zkreg/zookeepertest"
)

// That ZooKeeper lost its data is told once, also where the answer to putting the worker ID
// back was lost: the report that follows then finds the entry there. (Nobody was
// told: found on the real daemon.)
func TestDataLostIsToldThoughTheAnswerWasLost(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"answered": false, "answer lost": true} {
		t.Run(name, func(t *testing.T) {
			server := zookeepertest.Shared(t)
			var mu sync.Mutex
			told := 0
			cfg := daemonConfig(server, madeRoot(t, server), "a")
			cfg.Notify = func(e zksession.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Kind == EventDataLost {
					told++
				}
			}
			r, rec := claimed(t, cfg)
			before := rec
			for _, p := range []string{"/leaf_temporary/a", "/leaf_temporary", "/leaf_forever/a-0000000000", "/leaf_forever", ""} {
				require.NoError(t, r.session.Remove(bounded(t, patience), cfg.Root+p, -1))
			}
			var puts int
			r.commit = func(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
				responses, err := r.session.Multi(ctx, connection, ops...)
				if len(ops) == 3 { // the root's check, the parent's version, the entry
					if puts++; puts == 1 && lost && err == nil {
						return nil, fmt.Errorf("%w: lost", worker.ErrUnreachable)
					}
				}
				return responses, err
			}
			rec = next(rec)
			got, err := r.Report(bounded(t, patience), rec, true)
			if lost {
				require.ErrorIs(t, err, worker.ErrUnreachable)
				rec = next(rec)
				got, err = r.Report(bounded(t, patience), rec, true)
			}
			require.NoError(t, err)
			require.Positive(t, puts)
			require.Equal(t, before.Cluster, got.Cluster)
			require.Equal(t, before.Losses+1, got.Losses)
			report(t, r, got)
			count := func() int {
				mu.Lock()
				defer mu.Unlock()
				return told
			}
			require.Eventually(t, func() bool { return count() > 0 }, patience, time.Millisecond)
			require.NoError(t, r.Close())
			require.Equal(t, 1, count())
		})
	}
}
