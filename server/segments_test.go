package server

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/test/segmenttest"
)

// serveTags serves the tags a, b, c… of a real service.
func serveTags(t *testing.T, names ...string) (*running, *segmenttest.Store, *segment.Service) {
	t.Helper()
	store := segmenttest.NewStore()
	for _, name := range names {
		store.Set(name, 0, 1000)
	}
	service, err := segment.New(segment.Config{
		Store: store, HighWater: segmenttest.NewHighWater(), Marks: "memory", Wait: 2 * time.Second,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- service.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ran) })
	r := startEmpty(t, nil)
	require.Eventually(t, func() bool { return service.Ready() == nil }, time.Minute, time.Millisecond)
	r.SetBackend(&views.Backend{Backend: ids.Backend{Segments: ids.FromService(service)}, Admin: &segment.Table{Admin: store, Service: service}})
	for _, name := range names {
		_, err := service.Find(ctx, []byte(name))
		require.NoError(t, err)
	}
	return r, store, service
}

// segmentList is the answer of GET /api/segments as a client reads it.
type segmentList struct {
	Segments []map[string]any
}

func (r *running) segmentList(t *testing.T, query string) segmentList {
	t.Helper()
	a := r.get("/api/segments" + query)
	require.Equal(t, 200, a.status, a.body)
	var list segmentList
	require.NoError(t, json.Unmarshal([]byte(a.body), &list))
	return list
}

// warm has IDs of the tag handed out until it has a rate.
func (r *running) warm(t *testing.T, service *segment.Service, tag string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		a := r.get(fmt.Sprintf("%s%s?n=%d", segmentPrefix, tag, n))
		found, err := service.Lookup([]byte(tag))
		require.NoError(t, err)
		return a.status == 200 && found.Status().Rate > 0
	}, time.Minute, 5*time.Millisecond)
}

func TestSegmentsShowUse(t *testing.T) {
	r, store, service := serveTags(t, "a", "b")
	list := r.segmentList(t, "")
	require.Len(t, list.Segments, 2)
	require.Equal(t, "0", list.Segments[0]["issued"])
	require.EqualValues(t, 0, list.Segments[0]["rate"])
	require.EqualValues(t, 0, list.Segments[0]["remaining_s"], "no range was fetched yet")

	r.warm(t, service, "a", 3)
	var a map[string]any
	var st segment.Status
	require.Eventually(t, func() bool { // the last second may be looked at just now
		tag, err := service.Lookup([]byte("a"))
		require.NoError(t, err)
		a, st = r.segmentList(t, "").Segments[0], tag.Status()
		return a["rate"] == st.Rate
	}, time.Minute, time.Millisecond)
	require.Equal(t, fmt.Sprint(st.Issued), a["issued"])
	require.Positive(t, st.Issued)
	require.InDelta(t, *st.Remaining, a["remaining_s"], 1e-6)

	// Nothing is left: 0 is told, not left out.
	store.Fail(segmenttest.ErrAway)
	require.Eventually(t, func() bool { return r.get(segmentPrefix+"a?n=50").status == 503 }, time.Minute, time.Microsecond)
	require.Eventually(t, func() bool { return r.get(segmentPrefix+"a").status == 503 }, time.Minute, time.Microsecond)
	r.forgetLists() // else they serve for a second
	require.EqualValues(t, 0, r.segmentList(t, "").Segments[0]["remaining_s"])
}

// TestConnectionsFindTheirTag: a connection remembers the tag that it asked for last, and
// never an ID of a row that is gone, or of another tag.
func TestConnectionsFindTheirTag(t *testing.T) {
	r, store, service := serveTags(t, "a", "b")
	for _, step := range []struct{ tag, want string }{{"a", "0"}, {"a", "1"}, {"b", "0"}, {"a", "2"}} {
		require.Equal(t, step.want, r.get(segmentPrefix+step.tag).body, step)
	}
	_, err := store.Delete(t.Context(), "a", nil)
	require.NoError(t, err)
	service.Deleted("a")
	r.get(segmentPrefix+"a").requireError(t, 404, "unknown_key")
	store.Set("a", 5000, 1000)
	service.Created("a")
	require.Equal(t, "5000", r.get(segmentPrefix+"a").body)
	require.Equal(t, "5001", r.get(segmentPrefix+"a").body)
}
