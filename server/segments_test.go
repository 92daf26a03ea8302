package server

import (
	"context"
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
	require.Equal(t, "5001\n5002\n", r.get(segmentPrefix+"a?n=2").body)
}
