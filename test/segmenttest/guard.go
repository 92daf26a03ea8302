package segmenttest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/leafd/leafd/segment"
)

// Guard is one daemon's segment.Guard: a connection of its own with an ensemble in memory that many share
// (Beside), which can be set back, lose all, refuse a mark, and have its root changed.
type Guard struct {
	Faults
	*ensemble

	line       locked // protects the two below
	conn, last uint64 // conn 0: away
}

// ensemble is what all Guards on it share.
type ensemble struct {
	locked  // protects all below
	data    data
	damaged map[string]bool // Read refuses it
	refused map[string]bool // Write refuses it
	agrees  bool
}

// data is what a ZooKeeper that is set back has as it was.
type data struct {
	highs   map[string]segment.HighMark
	cluster string
	root    int64 // its version
	losses  int
	absent  bool // the root
}

var _ segment.Guard = (*Guard)(nil)

// NewGuard returns a connected Guard of a cluster without a high mark.
func NewGuard() *Guard {
	return (&Guard{ensemble: &ensemble{
		data: data{cluster: "segmenttest", highs: map[string]segment.HighMark{}}, damaged: map[string]bool{}, refused: map[string]bool{},
	}}).Beside()
}

// Beside returns one more Guard on the same high marks, as another daemon has it.
func (g *Guard) Beside() *Guard { return &Guard{ensemble: g.ensemble, conn: 1, last: 1} }

// Break breaks the connection; there is none until Connect.
func (g *Guard) Break() { g.line.do(func() { g.conn = 0 }) }

// Connect opens another connection.
func (g *Guard) Connect() { g.line.do(func() { g.last++; g.conn = g.last }) }

// Agree makes every write succeed, on whichever versions, root and connection: what a test has to find.
func (e *ensemble) Agree() { e.do(func() { e.agrees = true }) }

// Damage makes the high mark of tag unreadable, or readable again.
func (e *ensemble) Damage(tag string, damaged bool) { e.do(func() { e.damaged[tag] = damaged }) }

// Refuse has writes of the high mark of tag refused, as by permissions or a quota.
func (e *ensemble) Refuse(tag string, refused bool) { e.do(func() { e.refused[tag] = refused }) }

// WriteRoot writes the root, as a daemon does that was granted a longer session.
func (e *ensemble) WriteRoot() { e.do(func() { e.data.root++ }) }

// NoteLoss notes a loss of data in the root.
func (e *ensemble) NoteLoss() { e.do(func() { e.data.root++; e.data.losses++ }) }

// NoRoot takes the root away, or brings it back.
func (e *ensemble) NoRoot(absent bool) { e.do(func() { e.data.absent = absent }) }

// SetCluster makes the root another cluster's.
func (e *ensemble) SetCluster(uuid string) { e.do(func() { e.data.root++; e.data.cluster = uuid }) }

// Wipe removes all high marks. As where Snapshot's are set back, breaking each Guard's connection is the caller's.
func (e *ensemble) Wipe() { e.do(func() { e.data.highs = map[string]segment.HighMark{} }) }

// Snapshot returns what sets all back to what it is now, versions included.
func (e *ensemble) Snapshot() (restore func()) {
	var was data
	copied := func(d data) data { d.highs = maps.Clone(d.highs); return d }
	e.do(func() { was = copied(e.data) })
	return func() { e.do(func() { e.data = copied(was) }) }
}

// Mark returns the high mark of tag; no fault touches it.
func (e *ensemble) Mark(tag string) (m segment.HighMark) {
	e.do(func() { m = e.data.mark(tag) })
	return m
}

func (d data) mark(tag string) segment.HighMark {
	if m, there := d.highs[tag]; there {
		return m
	}
	return segment.HighMark{Tag: tag, Version: -1}
}

// Connection implements segment.Guard.
func (g *Guard) Connection() (conn uint64) {
	g.line.do(func() { conn = g.conn })
	return conn
}

// call is a call over the connection on, 0 for any.
func (g *Guard) call(ctx context.Context, on uint64, op Op, tags []string, effect func(conn uint64) error) error {
	err := g.run(ctx, op, tags, func() (err error) {
		conn := g.Connection()
		g.ensemble.do(func() {
			if conn == 0 || on != 0 && conn != on && !g.agrees {
				err = errors.New("segmenttest: there is no such connection")
			} else {
				err = effect(conn)
			}
		})
		return err
	})
	if err == nil || errors.Is(err, segment.ErrGuardConflict) || errors.Is(err, segment.ErrGuardMoved) || errors.Is(err, segment.ErrGuardRefused) {
		return err
	}
	return fmt.Errorf("%w: %w", segment.ErrGuardAway, err)
}

// Open implements segment.Guard.
func (g *Guard) Open(ctx context.Context) (o segment.Opened, err error) {
	err = g.call(ctx, 0, OpOpen, nil, func(conn uint64) error {
		if g.data.absent {
			return errors.New("segmenttest: there is no root")
		}
		o = segment.Opened{Conn: conn, Root: g.data.root, Cluster: g.data.cluster, Loss: strconv.Itoa(g.data.losses)}
		return nil
	})
	return o, err
}

// Read implements segment.Guard.
func (g *Guard) Read(ctx context.Context, at segment.Opened, tags []string) (marks []segment.HighMark, err error) {
	err = g.call(ctx, at.Conn, OpRead, tags, func(uint64) error {
		for _, tag := range tags {
			m := g.data.mark(tag)
			if g.damaged[tag] {
				m = segment.HighMark{Tag: tag, Err: fmt.Errorf("%w: segmenttest: that of %q can't be read", segment.ErrGuardRefused, tag)}
			}
			marks = append(marks, m)
		}
		return nil
	})
	return marks, err
}

// Write implements segment.Guard.
func (g *Guard) Write(ctx context.Context, at segment.Opened, marks []segment.HighMark) error {
	var tags []string
	for _, m := range marks {
		tags = append(tags, m.Tag)
	}
	return g.call(ctx, at.Conn, OpWrite, tags, func(uint64) error {
		d := g.data
		if (d.absent || d.root != at.Root) && !g.agrees {
			return fmt.Errorf("%w: segmenttest: its version is %d", segment.ErrGuardMoved, d.root)
		}
		for _, m := range marks {
			switch {
			case g.refused[m.Tag]:
				return fmt.Errorf("%w: segmenttest: that of %q", segment.ErrGuardRefused, m.Tag)
			case d.mark(m.Tag).Version != m.Version && !g.agrees:
				return fmt.Errorf("%w: segmenttest: that of %q", segment.ErrGuardConflict, m.Tag)
			}
		}
		for _, m := range marks {
			m.Version = d.mark(m.Tag).Version + 1
			d.highs[m.Tag] = m
		}
		return nil
	})
}
