package gen

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/segmenttest"
)

// step is the largest that a range grows to by itself at most rates: what a tag that is
// asked for all it can give has after a while.
const step = 1_000_000

// segmentTag returns a tag that is served for as long as the benchmark runs, from a table in memory: what is measured is
// the way of an ID out of a range, with a fetch that costs next to nothing each million.
func segmentTag(b *testing.B) *segment.Tag {
	b.Helper()
	store := segmenttest.NewStore()
	require.NoError(b, store.Create(b.Context(), segment.Row{Tag: "bench", MaxID: 1, Step: step}, nil))
	service, err := segment.New(segment.Config{Store: store, HighWater: segmenttest.NewHighWater(), Marks: "memory"})
	require.NoError(b, err)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- service.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		require.NoError(b, <-ended)
	})
	var tag *segment.Tag
	require.Eventually(b, func() bool {
		if tag, err = service.Find(b.Context(), []byte("bench")); err == nil {
			_, err = tag.Next(b.Context())
		}
		return err == nil
	}, time.Minute, time.Millisecond)
	return tag
}

func BenchmarkSegment(b *testing.B) {
	tag, ctx := segmentTag(b), context.Background()
	eachWay(b, "next", func() int64 {
		id, err := tag.Next(ctx)
		if err != nil {
			panic(err)
		}
		return id
	})
	// Side by side with its yardstick: the ratio is what counts.
	var counter atomic.Int64
	eachWay(b, "atomic", func() int64 { return counter.Add(1) })
	b.Run("batch", func(b *testing.B) {
		const n = 1000
		var dst []segment.IDRange
		cpu, start := cpuTime(b), time.Now()
		for b.Loop() {
			var err error
			if dst, err = tag.NextRanges(ctx, n, dst[:0]); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed())/float64(b.N)/n, "ns/op")
		reportCPUs(b, cpu, start)
	})
}
