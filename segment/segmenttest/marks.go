package segmenttest

import (
	"context"
	"fmt"
	"sync"

	"github.com/leafd/leafd/segment"
)

// Marks is segment.Marks in memory. It outlives the services that use it, as
// the file in the data folder does.
type Marks struct {
	Faults

	mu    sync.Mutex
	highs map[string]int64
}

var _ segment.Marks = (*Marks)(nil)

// NewMarks returns Marks that remember nothing yet.
func NewMarks() *Marks { return &Marks{highs: make(map[string]int64)} }

// High implements segment.Marks.
func (m *Marks) High(ctx context.Context, tag string) (int64, error) {
	if err := m.enter(ctx, OpHigh, tag); err != nil {
		return 0, err
	}
	return m.Mark(tag), m.leave(ctx, OpHigh, tag)
}

// Raise implements segment.Marks.
func (m *Marks) Raise(ctx context.Context, tag string, high int64) error {
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
func (m *Marks) Mark(tag string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.highs[tag]
}

// Close implements segment.Marks.
func (m *Marks) Close() error { return nil }
