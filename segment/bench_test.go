package segment_test

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"

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

// benchTag returns a running service's tag with a range that no benchmark uses up.
func benchTag(b *testing.B, tags int) (*segment.Service, *segment.Tag, []byte) {
	b.Helper()
	store := segmenttest.NewStore()
	for i := range tags {
		store.Set(fmt.Sprintf("tag-%06d", i), 0, math.MaxInt64/4)
	}
	svc := start(b, segment.Config{Store: store})
	key := fmt.Appendf(nil, "tag-%06d", tags/2)
	tag := lookup(b, svc, string(key))
	_, err := tag.Next(b.Context())
	require.NoError(b, err)
	return svc, tag, key
}

func BenchmarkNext(b *testing.B) {
	_, tag, _ := benchTag(b, 1)
	ctx := context.Background()
	b.ReportAllocs()
	var last int64
	for b.Loop() {
		last, _ = tag.Next(ctx)
	}
	sink.Store(last)
}

func BenchmarkNextParallel(b *testing.B) {
	_, tag, _ := benchTag(b, 1)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		var last int64
		for pb.Next() {
			last, _ = tag.Next(ctx)
		}
		sink.Store(last)
	})
}

func BenchmarkNextN1000(b *testing.B) {
	_, tag, _ := benchTag(b, 1)
	ctx := context.Background()
	dst := make([]int64, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if err := tag.NextN(ctx, dst); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(dst)), "ns/id")
}

func BenchmarkLookupNext(b *testing.B) {
	for _, tags := range []int{1, 100_000} {
		b.Run(fmt.Sprintf("tags=%d", tags), func(b *testing.B) {
			svc, _, key := benchTag(b, tags)
			ctx := context.Background()
			b.ReportAllocs()
			var last int64
			for b.Loop() {
				tag, err := svc.Lookup(key)
				if err != nil {
					b.Fatal(err)
				}
				last, _ = tag.Next(ctx)
			}
			sink.Store(last)
		})
	}
}

func BenchmarkLoad100kTags(b *testing.B) {
	store := segmenttest.NewStore()
	for i := range 100_000 {
		store.Set(fmt.Sprintf("tag-%06d", i), 0, 100)
	}
	b.ReportAllocs()
	for b.Loop() {
		svc, err := segment.New(segment.Config{Store: store, HighWater: segmenttest.NewHighWater()})
		require.NoError(b, err)
		require.NoError(b, svc.Reload(b.Context()))
	}
}
