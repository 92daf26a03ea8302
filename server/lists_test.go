package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/views"
)

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
		var page views.SegmentPage
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

func TestPagesOfWorkers(t *testing.T) {
	r := start(t, nil)
	b := r.newBackend()
	var all []views.WorkerInfo
	for _, id := range []int64{0, 1, 1, 3, 4, 9} { // two entries of worker 1
		all = append(all, views.WorkerInfo{ID: id, Node: fmt.Sprint("n", len(all))})
	}
	b.Workers = func(context.Context) ([]views.WorkerInfo, error) { return all, nil }
	r.SetBackend(b)
	var seen []string
	for next := "?limit=2"; next != ""; {
		var page struct {
			Workers []views.WorkerInfo
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
	b.Workers = func(context.Context) ([]views.WorkerInfo, error) { return nil, context.DeadlineExceeded }
	r.forgetLists()
	r.get("/api/workers").requireError(t, 503, "registry_unreachable")
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
