package segmenttest

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/leafd/leafd/segment"
)

// HighWater is segment.HighWater in memory. It outlives the services that use it, as
// the file in the data directory does.
type HighWater struct {
	Faults

	mu    sync.Mutex
	highs map[string]int64
}

var _ segment.HighWater = (*HighWater)(nil)

// NewHighWater returns HighWater that remember nothing yet.
func NewHighWater() *HighWater { return &HighWater{highs: make(map[string]int64)} }

// Marks implements segment.HighWater.
func (m *HighWater) Marks(ctx context.Context, fn func(tag string, high int64)) error {
	if err := m.enter(ctx, OpMarks, ""); err != nil {
		return err
	}
	m.mu.Lock()
	highs := maps.Clone(m.highs)
	m.mu.Unlock()
	for tag, high := range highs {
		fn(tag, high)
	}
	return m.leave(ctx, OpMarks, "")
}

// Raise implements segment.HighWater.
func (m *HighWater) Raise(ctx context.Context, tag string, high int64) error {
	if err := m.enter(ctx, OpRaise, tag); err != nil {
		return err
	}
	if high < 0 {
		return fmt.Errorf("segmenttest: mark of %q can't be %d", tag, high)
	}
	m.mu.Lock()
	m.highs[tag] = max(m.highs[tag], high)
	m.mu.Unlock()
	return m.leave(ctx, OpRaise, tag)
}

// Mark returns the mark of tag; no fault touches it.
func (m *HighWater) Mark(tag string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.highs[tag]
}

// Close implements segment.HighWater.
func (m *HighWater) Close() error { return nil }
