package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leafd/leafd/server/ids"

	"github.com/leafd/leafd/server/reply"

	"github.com/leafd/leafd/server/conn"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/fair"
)

// No request has a turn while others have them all, and none waits for ever.
func TestListsAreMadeInTurns(t *testing.T) {
	r := start(t, nil)
	turns := r.views.lists[conn.Public].own
	var all fair.Waiter
	take := func() { require.True(t, turns.Take(&all, fair.Address{}, maxLists, time.Minute, nil)) }
	take()
	for _, path := range []string{"/db?tag=o", "/cache?tag=o", "/api/segments?after=a", "/api/segments?limit=5", "/api/workers?limit=5", "/api/overview?tag=o"} {
		answered := make(chan int, 1)
		go func() { answered <- r.get(path).status }()
		require.Never(t, func() bool { return len(answered) > 0 }, 100*time.Millisecond, 10*time.Millisecond, path)
		turns.Give(maxLists)
		require.Equal(t, http.StatusOK, <-answered, path)
		take() // once the turn has rested
	}
	for _, path := range []string{"/db", "/cache", "/api/segments", "/api/workers", "/api/overview", "/api/history", "/metrics"} {
		require.Equal(t, http.StatusOK, r.get(path).status, "%s is the same for all, and has turns of its own", path)
	}
	r.get("/db?tag=o").requireError(t, http.StatusServiceUnavailable, "overloaded")
	require.Equal(t, "1", r.gauge(`leafd_http_shed_total{reason="lists"}`))
}

// A turn rests after its use.
func TestTurnsRest(t *testing.T) {
	r := start(t, nil)
	turns := r.views.lists[conn.Public].own
	began := time.Now()
	for range 3 {
		require.NoError(t, r.views.list(newRequest(newConn(t), "/db", ""), reply.ContentHTML, func() ([]byte, error) {
			time.Sleep(20 * time.Millisecond)
			return nil, nil
		}))
	}
	require.GreaterOrEqual(t, time.Since(began), 3*20*time.Millisecond+2*listRest*20*time.Millisecond)
	require.Eventually(t, func() bool { return turns.Busy() == 0 }, time.Minute, time.Millisecond)
}

// The pages of tags together have each tag once, in order.
func TestPagesOfTags(t *testing.T) {
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprintf("t&%02d", i))
	}
	r, _, _ := serveTags(t, names...)
	var tags []string
	pages := 0
	for after, last := "", false; !last; pages++ {
		a := r.get("/api/segments?limit=7&after=" + url.QueryEscape(after))
		require.Equal(t, http.StatusOK, a.status, a.body)
		var page segmentPage
		require.NoError(t, json.Unmarshal([]byte(a.body), &page))
		require.LessOrEqual(t, len(page.Segments), 7)
		for _, s := range page.Segments {
			tags = append(tags, s.Tag)
		}
		after = page.Next
		last = after == ""
	}
	require.Equal(t, names, tags)
	require.Equal(t, 8, pages)
	require.JSONEq(t, `{"segments":[]}`, r.get("/api/segments?after=z").body)
	for _, bad := range []string{"after=a&after=b", "after=a&limit=1001", "after=a&limit=", "limit=0"} {
		r.get("/api/segments?"+bad).requireError(t, 400, "bad_request")
	}
}

// What is the same for all clients is made once.
func TestPlainPagesAreMadeOnce(t *testing.T) {
	var made atomic.Int64
	s := newServer(t)
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			text, err := s.views.text("/db", time.Hour, func() ([]byte, error) { made.Add(1); return []byte("x"), nil })
			if err != nil || string(text) != "x" {
				t.Error(text, err)
			}
		})
	}
	asking.Wait()
	require.EqualValues(t, 1, made.Load())
	text, err := s.views.text("/cache", time.Hour, func() ([]byte, error) { return []byte("y"), nil })
	require.NoError(t, err)
	require.Equal(t, "y", string(text))
	s.views.forgetLists()
	text, err = s.views.text("/db", time.Hour, func() ([]byte, error) { return []byte("z"), nil })
	require.NoError(t, err)
	require.Equal(t, "z", string(text))
}

func TestPagesOfWorkers(t *testing.T) {
	r := start(t, nil)
	b := r.newBackend()
	var all []WorkerInfo
	for _, id := range []int64{0, 1, 1, 3, 4, 9} { // two entries of worker 1
		all = append(all, WorkerInfo{ID: id, Node: fmt.Sprint("n", len(all))})
	}
	b.Workers = func(context.Context) ([]WorkerInfo, error) { return all, nil }
	r.SetBackend(b)
	var seen []string
	for next := "?limit=2"; next != ""; {
		var page struct {
			Workers []WorkerInfo
			Next    *int64
		}
		require.NoError(t, json.Unmarshal([]byte(r.get("/api/workers"+next).body), &page))
		require.LessOrEqual(t, len(page.Workers), 3)
		for _, w := range page.Workers {
			seen = append(seen, w.Node)
		}
		next = ""
		if page.Next != nil {
			next = fmt.Sprintf("?limit=2&after=%d", *page.Next)
		}
	}
	require.Equal(t, []string{"n0", "n1", "n2", "n3", "n4", "n5"}, seen)
	require.NotContains(t, r.get("/api/workers").body, "next")
	require.Contains(t, r.get("/api/workers?after=9").body, `,"workers":[]}`)
	for _, bad := range []string{"after=x", "after=1&after=2", "limit=0"} {
		r.get("/api/workers?"+bad).requireError(t, 400, "bad_request")
	}
}

// What isn't read is counted, refuses others beyond the bound, and ends with its connection.
func TestUnreadAnswersAreBounded(t *testing.T) {
	r := start(t, func(c *Config) { c.Live.MaxBatch = 1_000_000 })
	nc, err := net.Dial("tcp", r.addr)
	require.NoError(t, err)
	_, err = nc.Write([]byte("GET " + snowflakePrefix + "x?n=1000000 HTTP/1.1\r\nHost: x\r\n\r\n"))
	require.NoError(t, err)
	line, err := bufio.NewReader(nc).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "200")
	require.Positive(t, r.measured("leafd_http_unread_bytes", "batches"))
	require.Equal(t, http.StatusOK, r.get(snowflakePrefix+"y?n=1000").status)

	require.NoError(t, nc.Close())
	require.Eventually(t, func() bool { return r.measured("leafd_http_unread_bytes", "batches") == 0 }, time.Minute, time.Millisecond)
}

// One that is being made makes no room.
func TestAnswersBeyondWhatIsUnreadAreRefused(t *testing.T) {
	const most = 1_000_000 // of IDs, for which 27 bytes each are counted
	r := start(t, func(c *Config) { c.Live.MaxBatch, c.Memory = most, 8*27*most })
	ln := listenTCP(t)
	r.also(ln, conn.Redis)
	redis := dialRedis(t, ln)
	r.flake.block, r.flake.begun = make(chan struct{}), make(chan struct{}, 1)
	busy := r.background(snowflakePrefix + "x?n=1000000")
	<-r.flake.begun
	used := r.used()
	for _, query := range []string{"?n=1000", "?n=200"} {
		r.get(segmentPrefix+"order"+query).requireError(t, http.StatusServiceUnavailable, "overloaded")
	}
	require.Regexp(t, `^-OVERLOADED answers that are not read yet take all that they may`, redis.ask("LEAF.SEGMENT order 1000"))
	require.Equal(t, used, r.used())
	require.Equal(t, http.StatusOK, r.get(snowflakePrefix+"y").status)
	require.Equal(t, http.StatusOK, r.get(segmentPrefix+"order?n=100").status, "small")
	require.Equal(t, "*10", redis.ask("LEAF.SEGMENT order 10"), "a small one holds nothing")
	require.Equal(t, http.StatusOK, r.get("/api/segments").status)
	require.Equal(t, "3", r.gauge(`leafd_http_shed_total{reason="unread"}`))
	close(r.flake.block)
	require.Equal(t, http.StatusOK, busy()[0].status)
}

// Lists have their own room.
func TestUnreadListsAreBounded(t *testing.T) {
	r := start(t, nil)
	busy := newConn(t) // under way
	lists := r.views.unread[conn.Public]
	text := []byte(strings.Repeat("x", ids.InlineBytes+1))
	require.True(t, busy.Hold(lists, busy.Origin(), maxUnreadLists))
	require.Equal(t, reply.ErrOverloaded.Code, reply.To(r.views.answer(newRequest(newConn(t), "/db", ""), reply.ContentText, text)).Code)
	require.NoError(t, r.views.answer(newRequest(newConn(t), "/db", ""), reply.ContentText, text[1:]), "small")
	require.Equal(t, http.StatusOK, r.get("/metrics").status)
	require.NotEmpty(t, r.get("/metrics").body)
	busy.LetGo(lists)
	ctx := newRequest(newConn(t), "/db", "")
	require.NoError(t, r.views.answer(ctx, reply.ContentText, text))
	require.EqualValues(t, len(text), lists.Held())
	require.Equal(t, string(text), string(ctx.Response.Body()))
	ctx.Response.Reset()
	require.Zero(t, lists.Held())
}
