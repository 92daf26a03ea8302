package segment_test

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/segmenttest"
)

// counter is the bare thing that Next is measured against, on a cache line of
// its own as the counter of a range is.
type counter struct {
	_ [64]byte
	n atomic.Int64
	_ [56]byte
}

// sink keeps results in use: the compiler must not see that nothing reads it.
var sink atomic.Int64

func BenchmarkAtomicAdd(b *testing.B) {
	c := new(counter)
	var last int64
	for b.Loop() {
		last = c.n.Add(1)
	}
	sink.Store(last)
}

func BenchmarkAtomicAddParallel(b *testing.B) {
	c := new(counter)
	b.RunParallel(func(pb *testing.PB) {
		var last int64
		for pb.Next() {
			last = c.n.Add(1)
		}
		sink.Store(last)
	})
}

// benchTags returns a running service with a tag that no benchmark uses up.
func benchTags(b *testing.B, tags int) (*segment.Service, *segment.Tag, []byte) {
	b.Helper()
	store := segmenttest.NewStore()
	named(store, "tag", tags, math.MaxInt64/4)
	svc, err := segment.New(segment.Config{Store: store, HighWater: segmenttest.NewHighWater(), Marks: "bench"})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- svc.Run(ctx) }()
	b.Cleanup(func() { cancel(); require.NoError(b, <-done) })
	for svc.Ready() != nil {
		time.Sleep(time.Millisecond)
	}
	for i := range tags {
		_, err := svc.Next(ctx, fmt.Appendf(nil, "tag-%05d", i))
		require.NoError(b, err)
	}
	key := fmt.Appendf(nil, "tag-%05d", tags/2)
	tag, err := svc.Lookup(key)
	require.NoError(b, err)
	b.ReportAllocs()
	b.ResetTimer()
	return svc, tag, key
}

func BenchmarkNext(b *testing.B) {
	_, tag, _ := benchTags(b, 1)
	var last int64
	for b.Loop() {
		last, _ = tag.Next(b.Context())
	}
	sink.Store(last)
}

func BenchmarkNextParallel(b *testing.B) {
	_, tag, _ := benchTags(b, 1)
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		var last int64
		for pb.Next() {
			last, _ = tag.Next(ctx)
		}
		sink.Store(last)
	})
}

func BenchmarkNextRanges1000(b *testing.B) {
	svc, _, key := benchTags(b, 1)
	dst := make([]segment.IDRange, 0, 4)
	for b.Loop() {
		if _, err := svc.NextRanges(b.Context(), key, 1000, dst); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLookupNext(b *testing.B) {
	for _, tags := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("tags=%d", tags), func(b *testing.B) {
			svc, _, key := benchTags(b, tags)
			var last int64
			for b.Loop() {
				last, _ = svc.Next(b.Context(), key)
			}
			sink.Store(last)
		})
	}
}
