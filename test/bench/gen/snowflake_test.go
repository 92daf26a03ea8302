package gen

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"

	bwmarrin "github.com/bwmarrin/snowflake"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

// open is a ceiling that is never reached.
type open struct{}

func (open) Ceiling() clock.Millis                     { return math.MaxInt64 }
func (open) Await(context.Context, clock.Millis) error { return nil }

// wide has so many sequences that no loop uses a millisecond's up.
func wide() snowflake.Layout {
	return snowflake.Layout{Epoch: snowflake.DefaultEpoch, TimeBits: 41, WorkerBits: 2, SequenceBits: 20}
}

func leafd(b *testing.B, layout snowflake.Layout) *snowflake.Generator {
	b.Helper()
	g, err := snowflake.New(snowflake.Config{
		Layout: layout, Worker: 1, Clock: clock.System(), Fence: open{}, Jitter: snowflake.DefaultJitter,
	})
	require.NoError(b, err)
	return g
}

func leafdNext(b *testing.B, layout snowflake.Layout) func() int64 {
	b.Helper()
	g, ctx := leafd(b, layout), context.Background()
	return func() int64 {
		id, err := g.Next(ctx)
		if err != nil {
			panic(err)
		}
		return id
	}
}

// bwmarrinNext sets the library's global bits, which NewNode copies.
func bwmarrinNext(b *testing.B, nodeBits, stepBits uint8) func() int64 {
	b.Helper()
	bwmarrin.NodeBits, bwmarrin.StepBits = nodeBits, stepBits
	node, err := bwmarrin.NewNode(1)
	require.NoError(b, err)
	return func() int64 { return int64(node.Generate()) }
}

func BenchmarkFree(b *testing.B) {
	var counter atomic.Int64
	eachWay(b, "atomic", func() int64 { return counter.Add(1) })
	eachWay(b, "leafd", leafdNext(b, wide()))
	eachWay(b, "bwmarrin", bwmarrinNext(b, 2, 20))
}

func BenchmarkUsedUp(b *testing.B) {
	b.Run("leafd", func(b *testing.B) { alone(b, leafdNext(b, snowflake.DefaultLayout())) })
	b.Run("leafd/Sixteen", func(b *testing.B) { together(b, 16, leafdNext(b, snowflake.DefaultLayout())) })
	b.Run("bwmarrin", func(b *testing.B) { alone(b, bwmarrinNext(b, 10, 12)) })
}

// BenchmarkBatch takes 1000 IDs at a time.
func BenchmarkBatch(b *testing.B) {
	for name, layout := range map[string]snowflake.Layout{"free": wide(), "usedup": snowflake.DefaultLayout()} {
		b.Run(name, func(b *testing.B) {
			g, ctx, dst := leafd(b, layout), context.Background(), make([]int64, 1000)
			cpu, start := cpuTime(b), time.Now()
			for b.Loop() {
				if err := g.NextN(ctx, dst); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(len(dst)), "ns/op")
			reportCPUs(b, cpu, start)
		})
	}
}
