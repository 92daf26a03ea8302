package snowflake_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

func BenchmarkNextParallel(b *testing.B) {
	wide := snowflake.Layout{Epoch: snowflake.DefaultEpoch, TimeBits: 41, WorkerBits: 2, SequenceBits: 20} // no run uses up a millisecond
	g, err := snowflake.New(snowflake.Config{Layout: wide, Worker: 1, Clock: clock.System(), Fence: openFence{}, Jitter: snowflake.DefaultJitter})
	require.NoError(b, err)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := g.Next(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
