package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/views"
)

// slowTable counts how often it is read, and keeps all that read it at once waiting.
type slowTable struct {
	segment.Admin
	lists atomic.Int64
}

func (s *slowTable) Page(ctx context.Context, after, part string, limit int) ([]segment.Row, error) {
	s.lists.Add(1)
	time.Sleep(50 * time.Millisecond)
	return s.Admin.Page(ctx, after, part, limit)
}

// However many requests come, the table is read once; after a change, by the next request.
func TestPagesShareOneReading(t *testing.T) {
	r := startEmpty(t, nil)
	slow := &slowTable{Admin: tableAdmin{r.table}}
	b := r.newBackend()
	b.Admin = &segment.Table{Admin: slow}
	r.SetBackend(b)
	began := time.Now()
	var asking sync.WaitGroup
	for range 50 {
		asking.Go(func() {
			if a := r.get("/db"); a.status != http.StatusOK {
				t.Error(a.status)
			}
		})
	}
	asking.Wait()
	reads := slow.lists.Load()
	require.LessOrEqual(t, reads, int64(1+time.Since(began)/views.SnapshotAge))
	require.Equal(t, http.StatusNoContent, r.do(http.MethodPatch, "/api/segments/order", `{"description":"changed just now"}`, bearer).status)
	require.Equal(t, reads, slow.lists.Load(), "a change reads its row alone")
	require.Contains(t, r.get("/db").body, "changed just now")
	require.Equal(t, reads+1, slow.lists.Load())
	r.table.mu.Lock()
	r.table.err = errors.New("away")
	r.table.mu.Unlock()
	require.Eventually(t, func() bool { return r.get("/db").status == http.StatusServiceUnavailable }, time.Minute, time.Millisecond, "a second old at most")
}
