package snowflake_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

// wide leaves the millisecond IDs enough that no run uses it up.
func wide() snowflake.Layout {
	return snowflake.Layout{Epoch: snowflake.DefaultEpoch, TimeBits: 41, WorkerBits: 2, SequenceBits: 20}
}

func newBench(b *testing.B, layout snowflake.Layout) *snowflake.Generator {
	b.Helper()
	g, err := snowflake.New(snowflake.Config{Layout: layout, Worker: 1, Clock: clock.System(), Fence: openFence{}, Jitter: snowflake.DefaultJitter})
	require.NoError(b, err)
	return g
}

func BenchmarkNextParallel(b *testing.B) {
	g := newBench(b, wide())
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := g.Next(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
