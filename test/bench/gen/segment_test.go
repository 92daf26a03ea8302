package gen

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
)

// step is the largest that a range grows to by itself: what a tag that is
// asked for all it can give has after a while.
const step = segment.DefaultMaxStep

// table is a Store and HighWater of one tag in memory: what is measured is the way
// of an ID out of a range, with a fetch that costs next to nothing each million.
type table struct{ max atomic.Int64 }

func (t *table) Fetch(_ context.Context, _ string, want, _ int64) (segment.Range, error) {
	n := max(want, step)
	hi := t.max.Add(n)
	return segment.Range{Lo: hi - n, Hi: hi, Step: step}, nil
}

func (t *table) FetchGuarded(ctx context.Context, tag string, want int64, _ segment.Dispose) (segment.Range, error) {
	return t.Fetch(ctx, tag, want, 0)
}

func (t *table) Find(context.Context, []string, func(tag []byte, maxID, step int64) error) error {
	return nil
}

func (t *table) Each(_ context.Context, _ segment.View, fn func(tag []byte, maxID, step int64) error) (segment.View, error) {
	return segment.View{Whole: true}, fn([]byte("bench"), t.max.Load(), step)
}

func (*table) Marks(context.Context, func(string, int64)) error { return nil }
func (*table) Raise(context.Context, string, int64) error       { return nil }
func (*table) Close() error                                     { return nil }

// segmentTag returns a tag that is served for as long as the benchmark runs.
func segmentTag(b *testing.B) *segment.Tag {
	b.Helper()
	store := &table{}
	service, err := segment.New(segment.Config{Store: store, HighWater: store})
	require.NoError(b, err)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- service.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		require.NoError(b, <-ended)
	})
	require.Eventually(b, service.Loaded, time.Minute, time.Millisecond)
	tag, err := service.Lookup([]byte("bench"))
	require.NoError(b, err)
	_, err = tag.Next(b.Context())
	require.NoError(b, err)
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
		dst := make([]int64, 1000)
		cpu, start := cpuTime(b), time.Now()
		for b.Loop() {
			if err := tag.NextN(ctx, dst); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(len(dst)), "ns/op")
		reportCPUs(b, cpu, start)
	})
}
