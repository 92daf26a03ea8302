package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// asker asks for IDs over some connections, and counts.
type asker struct {
	client          http.Client
	served, refused atomic.Int64
}

func newAsker(t *testing.T, connections int) *asker {
	t.Helper()
	transport := &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}
	t.Cleanup(transport.CloseIdleConnections)
	return &asker{client: http.Client{Transport: transport}}
}

// ask asks once for an ID of tag; true where it got one.
func (a *asker) ask(ctx context.Context, l *child, tag string) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.addr+"/api/segment/get/"+tag, nil)
	if err != nil {
		return false, err
	}
	response, err := a.client.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	if _, err = io.Copy(io.Discard, response.Body); err != nil {
		return false, err
	}
	if response.StatusCode == http.StatusOK {
		a.served.Add(1)
		return true, nil
	}
	a.refused.Add(1)
	return false, nil
}

// coldTable makes a table of n tags.
func coldTable(t *testing.T, mariadb *mariadbtest.Server, n int) (database string) {
	t.Helper()
	database = mariadb.NewDatabase(t)
	db := mariadb.DB(t, database)
	javaTable(t, db)
	_, err := db.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO leaf_alloc (biz_tag, max_id, step) SELECT CONCAT('cold-', seq), 1, 1000 FROM seq_1_to_%d "+
		"UNION ALL SELECT CONCAT('a-while', seq), 1, 1000 FROM seq_0_to_9 UNION ALL SELECT CONCAT('a-after', seq), 1, 1000 FROM seq_0_to_9", n))
	require.NoError(t, err)
	return database
}

// Ten thousand tags, each asked for once over 512 connections, and then 20,000 others, over as
// many, again and again; beside and after that tags that are asked for the first time.
// docs/evidence/figures.txt has figures of it; the bound here is wide.
func TestColdTags(t *testing.T) {
	const tags, connections = 10_000, 512
	server := zookeepertest.Start(t)
	mariadb := mariadbtest.Start(t)
	s := onServers(t, server.NewRoot(t), server.Addr())
	l := s.machine().ready("--modes", "segment", "--mysql", mariadb.DSN(coldTable(t, mariadb, 3*tags)))
	a := newAsker(t, connections)
	began := time.Now()
	next := make(chan int)
	var clients sync.WaitGroup
	for range connections {
		clients.Go(func() {
			for i := range next {
				_, err := a.ask(t.Context(), l, fmt.Sprint("cold-", i))
				require.NoError(t, err)
			}
		})
	}
	for i := range tags {
		next <- i + 1
	}
	close(next)
	clients.Wait()
	took := time.Since(began)
	t.Logf("%d cold tags over %d connections: %d refused, %.0f tags/s", tags, connections, a.refused.Load(), float64(a.served.Load())/took.Seconds())
	require.EqualValues(t, tags, a.served.Load()+a.refused.Load())

	// The flood goes over all others, from many connections, and its requests may fail.
	flood, done := newAsker(t, connections), make(chan struct{})
	var at atomic.Int64
	for range connections {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_, err := flood.ask(t.Context(), l, fmt.Sprint("cold-", tags+at.Add(1)%(2*tags)+1))
					require.NoError(t, err)
				}
			}
		})
	}
	innocent := newAsker(t, 1)
	first := func(when string, n int) {
		slowest, refused := time.Duration(0), 0
		for i := range n {
			began := time.Now()
			for ok := false; !ok; {
				var err error
				ok, err = innocent.ask(t.Context(), l, fmt.Sprint("a-", when, i))
				require.NoError(t, err)
				if !ok {
					refused++
				}
				require.Less(t, time.Since(began), 20*time.Second)
			}
			slowest = max(slowest, time.Since(began))
		}
		t.Logf("%s the flood: %d tags' first request, the slowest had its ID after %s; %d refused before", when, n, slowest.Round(time.Millisecond), refused)
	}
	time.Sleep(time.Second)
	first("while", 5)
	close(done)
	first("after", 5)
	clients.Wait()
	t.Logf("the flood: %d served, %d refused", flood.served.Load(), flood.refused.Load())
	require.Equal(t, 0, l.stop())
}
