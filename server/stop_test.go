package server

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/pause"
)

func openPaused(t testing.TB) *pause.List {
	t.Helper()
	return openPausedIn(t, t.TempDir())
}

func openPausedIn(t testing.TB, dir string) *pause.List {
	t.Helper()
	s, err := pause.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// startStoppable is start with a list of stopped tags in dir.
func startStoppable(t testing.TB, dir string) *running {
	t.Helper()
	r := startEmpty(t, nil)
	b := r.newBackend()
	b.Stopped = openPausedIn(t, dir)
	r.SetBackend(b)
	return r
}

func TestStoppedTag(t *testing.T) {
	r := startStoppable(t, t.TempDir())
	require.Contains(t, r.get("/api/segments").body, `"stopped":[]`)
	require.Equal(t, 200, r.get(segmentPrefix+"order").status)

	a := r.do("POST", "/api/segments/order/stop", `{"reason":"team A's \"loop\""}`, bearer)
	require.Equal(t, 200, a.status, a.body)
	var answer tagSwitch
	require.NoError(t, json.Unmarshal([]byte(a.body), &answer))
	require.Positive(t, answer.Since)
	require.Equal(t, tagSwitch{"order", true, false, `team A's "loop"`, answer.Since}, answer)

	used := r.used()
	for _, query := range []string{"", "?n=1", "?n=100"} {
		a := r.get(segmentPrefix + "order" + query)
		a.requireError(t, 503, "tag_stopped")
		require.Equal(t, "30", a.header.Get("Retry-After"))
		require.Contains(t, a.body, `stopped this tag on this daemon: team A's \"loop\"`)
	}
	require.Equal(t, 503, r.do("HEAD", segmentPrefix+"order", "").status)
	r.get(segmentPrefix+"order?n=0").requireError(t, 400, "bad_count")
	require.Equal(t, used, r.used())
	require.Equal(t, 200, r.get(segmentPrefix+"a%2Fb").status, "another tag")
	require.Equal(t, 200, r.get(snowflakePrefix+"order").status, "a snowflake key of that name")

	list := r.get("/api/segments").body
	require.Contains(t, list, `"stopped":true,"stop_reason":"team A's \"loop\""`)
	require.Equal(t, 1, strings.Count(list, `"stopped":true`))
	require.Contains(t, r.get("/api/segments?limit=1").body, `"stopped":[{"tag":"order","reason":"team A's \"loop\"","since":`)
	require.Equal(t, "1", r.gauge("leafd_segment_stopped"))
	require.Contains(t, r.get("/api/overview").body, `"stopped":true`)

	a = r.do("POST", "/api/segments/order/stop", "", bearer)
	require.Equal(t, 200, a.status)
	require.Contains(t, a.body, `"was_stopped":true`)
	r.get(segmentPrefix+"order").requireError(t, 503, "tag_stopped")

	a = r.do("POST", "/api/segments/order/start", "", bearer)
	require.JSONEq(t, `{"tag":"order","stopped":false,"was_stopped":true}`, a.body)
	require.Equal(t, 200, r.get(segmentPrefix+"order").status)
	a = r.do("POST", "/api/segments/order/start", "", bearer)
	require.JSONEq(t, `{"tag":"order","stopped":false,"was_stopped":false}`, a.body)
	require.Equal(t, "0", r.gauge("leafd_segment_stopped"))
	require.NotContains(t, r.get("/api/segments").body, `"stopped":true`)

	log := r.log.String()
	require.Equal(t, 2, strings.Count(log, `"audit":"stop","tag":"order"`), log)
	require.Equal(t, 1, strings.Count(log, `"audit":"start","tag":"order"`), "what changed nothing is no change")
	require.Contains(t, log, `"after":{"reason":"team A's \"loop\""`)
}

func TestStopOutlivesTheServer(t *testing.T) {
	dir := t.TempDir()
	r := startStoppable(t, dir)
	require.Equal(t, 200, r.do("POST", "/api/segments/a%2Fb/stop", "", bearer).status)
	again := startStoppable(t, dir)
	again.get(segmentPrefix+"a%2Fb").requireError(t, 503, "tag_stopped")
	require.Equal(t, 200, again.get(segmentPrefix+"order").status)
}

func TestStopIsRefused(t *testing.T) {
	r := startStoppable(t, t.TempDir())
	for _, test := range []struct {
		name, path, body, header string
		status                   int
		code                     string
	}{
		{"no token", "order/stop", "", "X: y", 401, "unauthorized"},
		{"wrong token", "order/start", "", "Authorization: Bearer nothing", 401, "unauthorized"},
		{"unknown tag", "ordr/stop", "", bearer, 404, "unknown_key"},
		{"bad key", "%00/stop", "", bearer, 400, "bad_key"},
		{"no JSON", "order/stop", "stop", bearer, 400, "bad_request"},
		{"unknown field", "order/stop", `{"until":5}`, bearer, 400, "bad_request"},
		{"long reason", "order/stop", `{"reason":"` + strings.Repeat("ü", 257) + `"}`, bearer, 400, "bad_request"},
		{"reason of two lines", "order/stop", `{"reason":"a\nb"}`, bearer, 400, "bad_request"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r.do("POST", "/api/segments/"+test.path, test.body, test.header).requireError(t, test.status, test.code)
		})
	}
	require.Equal(t, 405, r.get("/api/segments/order/stop").status)
	require.Equal(t, 1, r.table.reloads, "a name that is not known is looked up")
	require.Contains(t, r.get("/api/segments").body, `"stopped":[]`)
	require.Equal(t, 200, r.get(segmentPrefix+"order").status)

	none := start(t, nil) // its backend can't stop tags
	none.do("POST", "/api/segments/order/stop", "", bearer).requireError(t, 404, "mode_disabled")
}

// A tag may be stopped before it is there, on purpose, and while the table can't be
// read.
func TestStopOfATagThatIsNotKnown(t *testing.T) {
	r := startStoppable(t, t.TempDir())
	require.Equal(t, 200, r.do("POST", "/api/segments/new/stop", `{"unknown":true}`, bearer).status)
	require.Contains(t, r.get("/api/segments").body, `"stopped":[{"tag":"new","since":`)
	r.get(segmentPrefix+"new").requireError(t, 503, "tag_stopped")
	require.Equal(t, 201, r.do("POST", "/api/segments", `{"tag":"new","step":5}`, bearer).status)
	r.get(segmentPrefix+"new").requireError(t, 503, "tag_stopped")

	r.table.mu.Lock()
	r.table.err = errFull
	r.table.mu.Unlock()
	require.Equal(t, 200, r.do("POST", "/api/segments/nobody-knows/stop", "", bearer).status)
}

// A tag stops even if the data directory takes no record.
func TestStopThatCanNotBeRecorded(t *testing.T) {
	dir := t.TempDir() + "/data"
	require.NoError(t, os.Mkdir(dir, 0o700))
	r := startStoppable(t, dir)
	require.NoError(t, os.RemoveAll(dir))
	r.do("POST", "/api/segments/order/stop", "", bearer).requireError(t, 500, "not_recorded")
	r.get(segmentPrefix+"order").requireError(t, 503, "tag_stopped")
	r.do("POST", "/api/segments/order/start", "", bearer).requireError(t, 500, "not_recorded")
	r.get(segmentPrefix+"order").requireError(t, 503, "tag_stopped")
	require.Contains(t, r.log.String(), "the list of stopped tags could not be written")
	require.Contains(t, r.log.String(), `"audit":"stop"`)
}

// In force from the next request on: a request after the answer to the stop gets
// nothing, whatever else is under way.
func TestStopUnderLoad(t *testing.T) {
	r := startStoppable(t, t.TempDir())
	var wg sync.WaitGroup
	var done atomic.Bool
	for range 4 {
		wg.Go(func() {
			for !done.Load() {
				resp, err := r.client.Get("http://" + r.addr + segmentPrefix + "order")
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	for range 10 {
		require.Equal(t, 200, r.do("POST", "/api/segments/order/stop", "", bearer).status)
		used := r.used()
		for range 5 {
			r.get(segmentPrefix+"order").requireError(t, 503, "tag_stopped")
		}
		// One that was let in before the stop may end after it: at most the four.
		require.LessOrEqual(t, r.used()-used, 4)
		require.Equal(t, 200, r.do("POST", "/api/segments/order/start", "", bearer).status)
		require.Equal(t, 200, r.get(segmentPrefix+"order").status)
	}
	done.Store(true)
	wg.Wait()
}
