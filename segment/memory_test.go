package segment_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/segmenttest"
)

// usedTagBytes is what docs/SIZING.md says that a tag in use takes at most.
const usedTagBytes = 2 << 10

// A tag in use takes little: with both of its ranges, and what the marks in memory keep.
func TestUsedTagTakesLittle(t *testing.T) {
	const tags = 5_000
	store := segmenttest.NewStore()
	for i := range tags {
		store.Set(fmt.Sprintf("tag-%d", i), 1, 1000)
	}
	svc, err := segment.New(segment.Config{Store: store, HighWater: segmenttest.NewHighWater(), Marks: "test"})
	require.NoError(t, err)
	ended := make(chan error)
	go func() { ended <- svc.Run(t.Context()) }()
	t.Cleanup(func() { require.NoError(t, <-ended) })
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // what the first one left for finalizers
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range tags {
		for range 2 {
			_, err := svc.NextRanges(t.Context(), fmt.Appendf(nil, "tag-%d", i), 200, nil) // the next range is wanted
			require.NoError(t, err)
		}
	}
	each := (heap() - before) / tags
	t.Logf("%d bytes a tag", each)
	require.Less(t, each, uint64(usedTagBytes))
	runtime.KeepAlive(store)
}
