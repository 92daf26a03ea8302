package worker

import (
	"context"
	"time"

	"github.com/leafd/leafd/clock"
)

// Holding is a reconciler to be explored: plain data between two steps.
type Holding struct{ h reconciler }

// HoldingEnds is what one step of it works with.
type HoldingEnds struct {
	Registry Registry
	Clock    clock.Clock
	Owner    string
	Margin   time.Duration
	Lease    time.Duration
	Save     func(Record)
	Judged   clock.Millis
	Settled  time.Duration
	Decide   func(Record, Snapshot, Moment) Action
	Split    bool // a step ends once it has looked; the next one acts upon that
}

func (e HoldingEnds) ends() reconcilerDeps {
	ends := reconcilerDeps{
		registry: e.Registry, decide: e.Decide, clk: e.Clock, owner: e.Owner, margin: e.Margin,
		lease:   func(Record) time.Duration { return e.Lease },
		save:    func(_ context.Context, r Record) error { e.Save(r); return nil },
		judged:  func(context.Context) (clock.Millis, error) { return e.Judged, nil },
		settled: func(Root) time.Duration { return e.Settled },
		tell:    func(Event) {},
		servers: []string{"memory:1"},
	}
	if e.Split {
		ends.guards = func(context.Context) error { return nil }
	}
	return ends
}

// NewHolding is that of a life that starts with r.
func NewHolding(r Record) Holding { return Holding{reconciler{rec: r}} }

// Step is reconciler.step.
func (x *Holding) Step(ctx context.Context, e HoldingEnds) (done bool, setAside, err error) {
	x.h.deps = e.ends()
	if x.h.held != nil {
		x.h.deps.guards = nil
	}
	defer func() { x.h.deps = reconcilerDeps{} }()
	n, err := x.h.step(ctx)
	return n.done, n.setAside, err
}

// Report is reconciler.report.
func (x *Holding) Report(ctx context.Context, e HoldingEnds, r Record) (Record, error) {
	x.h.deps = e.ends()
	defer func() { x.h.deps = reconcilerDeps{} }()
	return x.h.report(ctx, r)
}

// GiveBack is reconciler.giveBack.
func (x *Holding) GiveBack(ctx context.Context, e HoldingEnds) {
	x.h.deps = e.ends()
	_ = x.h.giveBack(ctx)
	x.h.deps = reconcilerDeps{}
}

// Record is what it has acknowledged.
func (x *Holding) Record() Record { return x.h.rec }

// Held is as it last read or wrote the registry.
func (x *Holding) Held() *Snapshot { return x.h.held }

// Watches tells that another life is shown as live.
func (x *Holding) Watches() bool { return x.h.watches }

// Settling is what it waits for; entry is 0 for nothing.
func (x *Holding) Settling() (root int32, entry int64, conn uint64, until time.Duration) {
	return x.h.settle.root, x.h.settle.entry, x.h.settle.conn, x.h.settle.until
}

// Seen is what it has seen of the entry.
func (x *Holding) Seen() (mzxid int64, live string, at time.Duration, stirred bool) {
	return x.h.seen.mzxid, x.h.seen.live, x.h.seen.at, x.h.stirred
}

// Releasing is Record.releasing.
func (r *Record) Releasing() { r.releasing() }

// Adopt is Record.adopt.
func (r *Record) Adopt(got Record) { r.adopt(got) }

// NoConnection has it settle even where its connection has changed.
func (x *Holding) NoConnection(now uint64) {
	if x.h.settle.entry != 0 {
		x.h.settle.conn = now
	}
}

// AnyRoot has it settle even where the root has changed, to that version.
func (x *Holding) AnyRoot(version int32) {
	if x.h.settle.entry != 0 {
		x.h.settle.root = version
	}
}

// MayGoOffline is what a start asks that no registry answers.
func MayGoOffline(cfg Config, r Record) error {
	return (&Worker{cfg: cfg}).mayGoOffline(r)
}

// Cell is where Decide's table has what to do, and what it has there.
type Cell struct{ Row, Column int }

// CellOf returns the one for these.
func CellOf(r Record, s Snapshot, now Moment) Cell {
	row := rowOf(r, now)
	return Cell{int(row), int(columnOf(r, row, s.Entry, now))}
}

// Action returns what stands in c.
func (c Cell) Action() Action { return decisions[c.Row][c.Column] }

// Cells returns all.
func Cells() (all []Cell) {
	for row := range int(rows) {
		for column := range int(columns) {
			all = append(all, Cell{row, column})
		}
	}
	return all
}

var rowNames = [rows]string{"reaches, running", "released in the file, stopping", "reaches, starting", "ended, running", "ended, starting", "released", "none"}

var columnNames = [columns]string{"lost", "own", "unknown", "after"}

// String returns its row and column.
func (c Cell) String() string { return rowNames[c.Row] + " / " + columnNames[c.Column] }
