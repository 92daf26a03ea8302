package zkreg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/zkreg/zksession"
)

// Guard is the segment.Guard of one daemon. It has a session of its own: a life that
// begins again, with another Registry, leaves it as it is, and reports never queue behind
// its requests. Its methods may be called at any time from any goroutine. It keeps:
//
//   - A transaction is sent over the connection over which all that it rests on was read, and
//     checks the root's version first: nothing is written below a root that is absent, or was
//     written since Open read it.
//   - A mark counts as absent only where ZooKeeper says so. Every other answer about a mark refuses it.
type Guard struct{ tree }

var _ segment.Guard = (*Guard)(nil)

// OpenGuard returns at once and connects in the background. It returns an error only for a Config that can
// never work. Of cfg it needs Servers.
func OpenGuard(cfg Config) (*Guard, error) {
	t, err := cfg.connect()
	return &Guard{t}, err
}

// Connection implements segment.Guard.
func (g *Guard) Connection() uint64 { return g.session.Connection() }

// Open implements segment.Guard.
func (g *Guard) Open(ctx context.Context) (segment.Opened, error) {
	s, _, err := g.stands(ctx) // waits for the connection
	if err != nil {
		return segment.Opened{}, isAway(err)
	}
	return segment.Opened{
		Conn: s.Conn, Root: int64(s.Root.Stat.Version), Cluster: s.Root.Cluster, Loss: fmt.Sprintf("%d/%d", s.Root.Losses, s.Root.LostAt),
	}, nil
}

// readers is how many marks are read at once.
const readers = 64

// Read implements segment.Guard.
func (g *Guard) Read(ctx context.Context, at segment.Opened, tags []string) ([]segment.HighMark, error) {
	if err := g.on(at.Conn); err != nil {
		return nil, err
	}
	marks, away := make([]segment.HighMark, len(tags)), make([]error, readers)
	var group sync.WaitGroup
	var next atomic.Int64
	for r := range min(readers, len(tags)) {
		group.Go(func() { // until one is away, which all are then
			for i := next.Add(1) - 1; i < int64(len(tags)) && away[r] == nil; i = next.Add(1) - 1 {
				marks[i] = g.readHigh(ctx, tags[i])
				if errors.Is(marks[i].Err, segment.ErrGuardAway) {
					away[r] = marks[i].Err
				}
			}
		})
	}
	group.Wait()
	// No connection has the number of one before: where it is open still, all was read over it.
	if err := cmp.Or(cmp.Or(away...), g.on(at.Conn)); err != nil {
		return nil, err
	}
	return marks, nil
}

// on returns ErrGuardAway unless the connection conn is open.
func (g *Guard) on(conn uint64) error {
	if conn == 0 || g.Connection() != conn {
		return isAway(zksession.ErrOtherConnection)
	}
	return nil
}

// readHigh reads the high mark of a tag; ErrGuardAway is in it like ErrGuardRefused.
func (g *Guard) readHigh(ctx context.Context, tag string) segment.HighMark {
	p := g.highOf(tag)
	data, stat, err := g.read(ctx, p)
	if err != nil {
		return segment.HighMark{Tag: tag, Err: asked(err)}
	}
	if stat == nil {
		return segment.HighMark{Tag: tag, Version: -1}
	}
	d, err := decodeHigh(p, data)
	if err != nil {
		return segment.HighMark{Tag: tag, Err: err}
	}
	return segment.HighMark{
		Tag: tag, High: d.High, Seen: d.Seen, On: d.On, By: d.By, Deleted: d.Deleted, Version: int64(stat.Version), WroteAt: stat.Mtime,
	}
}

// Write implements segment.Guard.
func (g *Guard) Write(ctx context.Context, at segment.Opened, marks []segment.HighMark) error {
	write := func() error {
		var ops []any
		for _, m := range marks {
			p, data := g.highOf(m.Tag), encode(highData{High: m.High, Seen: m.Seen, On: m.On, By: m.By, Deleted: m.Deleted})
			if m.Version < 0 {
				ops = append(ops, createNode(p, data, 0))
			} else {
				ops = append(ops, setData(p, data, int32(m.Version))) //nolint:gosec // it was one
			}
		}
		return g.change(ctx, at, ops)
	}
	err := write()
	if errors.Is(err, segment.ErrGuardConflict) && errors.Is(err, zk.ErrNoNode) { // a folder, perhaps; nothing was done
		if err := g.makeFolders(ctx, at); err != nil && !errors.Is(err, segment.ErrGuardConflict) {
			return err
		}
		err = write()
	}
	return err
}

// makeFolders makes all folders of high marks that are missing, at once. It returns ErrGuardConflict if
// another daemon has done that meanwhile.
func (g *Guard) makeFolders(ctx context.Context, at segment.Opened) error {
	names, stat, err := g.children(ctx, g.high)
	if err != nil {
		return asked(err)
	}
	var ops []any
	if stat == nil {
		ops = append(ops, createNode(g.high, nil, 0))
	}
	for i := range folders {
		if p := g.folder(uint32(i)); !slices.Contains(names, path.Base(p)) {
			ops = append(ops, createNode(p, nil, 0))
		}
	}
	return g.change(ctx, at, ops)
}

// change does ops, on the root and the connection of at.
func (g *Guard) change(ctx context.Context, at segment.Opened, ops []any) error {
	if err := g.on(at.Conn); err != nil {
		return err
	}
	responses, err := g.session.Multi(ctx, at.Conn, slices.Insert(ops, 0, check(g.root, int32(at.Root)))...) //nolint:gosec // it was one
	switch {
	case isConflict(err) && len(responses) > 0 && responses[0].Error != nil:
		return fmt.Errorf("%w: %w", segment.ErrGuardMoved, err)
	case isConflict(err):
		return fmt.Errorf("%w: %w", segment.ErrGuardConflict, err)
	case err != nil:
		return asked(err)
	}
	return nil
}

// asked returns err of a request about high marks as ErrGuardRefused if it is an answer, else as
// ErrGuardAway.
func asked(err error) error {
	if _, answered := zksession.Answered(err); answered {
		return fmt.Errorf("%w: %w", segment.ErrGuardRefused, err)
	}
	return isAway(err)
}

// isAway returns err as ErrGuardAway.
func isAway(err error) error { return fmt.Errorf("%w: %w", segment.ErrGuardAway, err) }
