package snowflake_test

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

// openFence never refuses.
type openFence struct{}

func (openFence) Ceiling() clock.Millis                     { return math.MaxInt64 }
func (openFence) Await(context.Context, clock.Millis) error { return nil }

// fixedFence refuses at a ceiling that only the test moves.
type fixedFence struct{ ceiling atomic.Int64 }

func newFixedFence(ceiling clock.Millis) *fixedFence {
	f := &fixedFence{}
	f.ceiling.Store(int64(ceiling))
	return f
}

func (f *fixedFence) Ceiling() clock.Millis { return clock.Millis(f.ceiling.Load()) }

func (f *fixedFence) Await(_ context.Context, t clock.Millis) error {
	if t < f.Ceiling() {
		return nil
	}
	return fmt.Errorf("%w: %s", snowflake.ErrCeilingReached, f.Ceiling())
}
