package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leafd/leafd/server/reply"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/fair"
)

func TestSharedReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const cost = 4
		s := shared[int]{every: listShare, cost: cost}
		var reads atomic.Int64
		release := make(chan struct{})
		read := func() (int, error) {
			n := int(reads.Add(1))
			<-release
			return n, fmt.Errorf("error %d", n)
		}
		var asking sync.WaitGroup
		for range 20 {
			asking.Go(func() {
				got, err := s.get(read)
				if got != 1 || err.Error() != "error 1" {
					t.Errorf("got %d, %v", got, err)
				}
			})
		}
		time.Sleep(2 * listShare) // however old it gets: one at a time
		close(release)
		asking.Wait()
		for _, step := range []struct {
			passes time.Duration
			want   int
		}{{2*cost*listShare - 1, 1}, {1, 2}, {listShare - 1, 2}, {1, 3}} { // the first took two listShares
			time.Sleep(step.passes)
			synctest.Wait()
			got, err := s.get(read)
			require.EqualError(t, err, fmt.Sprintf("error %d", got))
			require.Equal(t, step.want, got)
		}
		time.Sleep(listShare)
		synctest.Wait()
		require.Nil(t, s.last, "kept no longer")
	})
}

// What a process that was frozen for an hour read then is not shown for hours more, and
// neither is the turn kept that it had.
func TestRestAfterAFreezeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shared[int]{every: listShare, cost: listRest}
		n := 0
		read := func() (int, error) {
			n++
			time.Sleep(time.Hour)
			return n, nil
		}
		for want := range 3 {
			got, err := s.get(read)
			require.NoError(t, err)
			require.Equal(t, want+1, got)
			time.Sleep(mostRest)
			synctest.Wait()
		}
		turns := fair.NewTurns(1, 1, 1)
		require.NoError(t, new(viewServer).inTurn(newRequest(newConn(t), "/db", ""), turns, func() error { time.Sleep(time.Hour); return nil }))
		time.Sleep(mostRest)
		synctest.Wait()
		require.Zero(t, turns.Busy())
	})
}

// Also while a reading is under way that began before the change.
func TestSharedReadingIsForgotten(t *testing.T) {
	s := shared[string]{every: listShare}
	begun, release := make(chan struct{}), make(chan struct{})
	old := make(chan string)
	go func() {
		got, _ := s.get(func() (string, error) { close(begun); <-release; return "old", nil })
		old <- got
	}()
	<-begun
	s.forget()
	fresh := func() string {
		got, err := s.get(func() (string, error) { return "new", nil })
		require.NoError(t, err)
		return got
	}
	require.Equal(t, "new", fresh())
	close(release)
	require.Equal(t, "old", <-old)
	require.Equal(t, "new", fresh(), "the older reading does not come back")
}

func TestSharedReadingThatPanics(t *testing.T) {
	s := shared[int]{every: listShare}
	begun, release := make(chan struct{}), make(chan struct{})
	go func() {
		defer func() { _ = recover() }()
		_, _ = s.get(func() (int, error) { close(begun); <-release; panic("x") })
	}()
	<-begun
	waits := make(chan error)
	go func() { _, err := s.get(nil); waits <- err }()
	close(release)
	require.ErrorIs(t, <-waits, reply.ErrInternal)
}

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
	require.LessOrEqual(t, reads, int64(1+time.Since(began)/listShare))
	require.Equal(t, http.StatusNoContent, r.do(http.MethodPatch, "/api/segments/order", `{"description":"changed just now"}`, bearer).status)
	require.Equal(t, reads, slow.lists.Load(), "a change reads its row alone")
	require.Contains(t, r.get("/db").body, "changed just now")
	require.Equal(t, reads+1, slow.lists.Load())
	r.table.mu.Lock()
	r.table.err = errors.New("away")
	r.table.mu.Unlock()
	require.Eventually(t, func() bool { return r.get("/db").status == http.StatusServiceUnavailable }, time.Minute, time.Millisecond, "a second old at most")
}
