package segmenttest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/leafd/leafd/segment"
)

// errNoConnection is why a Guard is away.
var errNoConnection = errors.New("segmenttest: there is no connection")

// ErrRefused is what a guard says that has answered, and refuses a tag; for Faults.
var ErrRefused = errors.New("segmenttest: the guard refuses this tag")

// Guard is one daemon's segment.Guard on marks in memory that many share.
type Guard struct {
	Faults
	*marks

	mu      sync.Mutex
	conn    uint64        // mu protects; 0: away
	last    uint64        // mu protects
	agree   bool          // mu protects
	settle  time.Duration // mu protects
	session string        // mu protects
}

// marks is what all Guards on it share.
type marks struct {
	mu      sync.Mutex
	highs   map[string]segment.HighMark // mu protects
	damaged map[string]bool             // mu protects
}

var _ segment.Guard = (*Guard)(nil)

// NewGuard returns a connected Guard without a high mark.
func NewGuard() *Guard {
	return (&Guard{marks: &marks{highs: map[string]segment.HighMark{}, damaged: map[string]bool{}}}).Beside()
}

// Beside returns one more Guard on the same high marks, as another daemon has it.
func (g *Guard) Beside() *Guard {
	return &Guard{marks: g.marks, conn: 1, last: 1}
}

// Settle sets what Open tells: that daemons need so long.
func (g *Guard) Settle(settle time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settle = settle
}

// Session sets what Open tells: which session the connection is one of.
func (g *Guard) Session(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.session = name
}

// Agree makes every Put succeed, on any version that was read.
func (g *Guard) Agree() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.agree = true
}

// Break breaks the connection; there is none until Connect.
func (g *Guard) Break() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conn = 0
}

// Connect opens another connection.
func (g *Guard) Connect() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last++
	g.conn = g.last
}

// Snapshot returns what puts the high marks back as they are now, their versions too.
func (m *marks) Snapshot() (restore func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	highs := maps.Clone(m.highs)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.highs = maps.Clone(highs)
	}
}

// Forget removes the high mark of tag.
func (m *marks) Forget(tag string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.highs, tag)
}

// Damage makes the high mark of tag unreadable, or readable again.
func (m *marks) Damage(tag string, damaged bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.damaged[tag] = damaged
}

// High returns the high mark of tag.
func (m *marks) High(tag string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.highs[tag].High
}

// Connection implements segment.Guard.
func (g *Guard) Connection() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conn
}

// Open implements segment.Guard.
func (g *Guard) Open(ctx context.Context) (segment.Opened, error) {
	if err := g.enter(ctx, OpOpen, ""); err != nil {
		return segment.Opened{}, fmt.Errorf("%w: %w", segment.ErrGuardAway, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conn == 0 {
		return segment.Opened{}, fmt.Errorf("%w: %w", segment.ErrGuardAway, errNoConnection)
	}
	return segment.Opened{Conn: g.conn, Session: g.session, Settle: g.settle}, nil
}

// Get implements segment.Guard.
func (g *Guard) Get(ctx context.Context, conn uint64, tag string) (segment.HighMark, error) {
	if err := g.on(ctx, conn, OpGet, tag); err != nil {
		return segment.HighMark{}, err
	}
	g.marks.mu.Lock()
	m, there := g.highs[tag]
	damaged := g.damaged[tag]
	g.marks.mu.Unlock()
	if damaged {
		return segment.HighMark{}, fmt.Errorf("%w: that of %q", segment.ErrGuardDamaged, tag)
	}
	if !there {
		m.Version = -1
	}
	m.Conn = conn
	return m, g.done(ctx, OpGet, tag)
}

// Put implements segment.Guard.
func (g *Guard) Put(ctx context.Context, tag string, seen segment.HighMark, high int64, by string) (segment.HighMark, error) {
	if err := g.on(ctx, seen.Conn, OpPut, tag); err != nil {
		return segment.HighMark{}, err
	}
	g.marks.mu.Lock()
	m, there := g.highs[tag]
	if !there {
		m.Version = -1
	}
	if m.Version != seen.Version && !g.agrees() {
		g.marks.mu.Unlock()
		return segment.HighMark{}, fmt.Errorf("%w: of %q", segment.ErrGuardConflict, tag)
	}
	m = segment.HighMark{High: high, By: by, Version: m.Version + 1}
	g.highs[tag] = m
	g.marks.mu.Unlock()
	m.Conn = seen.Conn
	return m, g.done(ctx, OpPut, tag)
}

func (g *Guard) agrees() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.agree
}

// on begins a call on conn.
func (g *Guard) on(ctx context.Context, conn uint64, op Op, tag string) error {
	err := g.enter(ctx, op, tag)
	if errors.Is(err, ErrRefused) {
		return err
	}
	if err == nil && g.Connection() != conn {
		err = errNoConnection
	}
	if err != nil {
		return fmt.Errorf("%w: %w", segment.ErrGuardAway, err)
	}
	return nil
}

// done ends a call; its answer may be lost.
func (g *Guard) done(ctx context.Context, op Op, tag string) error {
	if err := g.leave(ctx, op, tag); err != nil {
		return fmt.Errorf("%w: %w", segment.ErrGuardAway, err)
	}
	return nil
}
