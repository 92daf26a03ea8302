package zkreg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// Guard is the segment.Guard of one daemon. It has a session of its own: a life that
// begins again, with another Registry, leaves it as it is, and reports never queue behind
// its requests. Its methods may be called at any time from any goroutine.
type Guard struct {
	tree

	mu     sync.Mutex
	parent int64         // mu protects; czxid of the parent of all high marks; 0: never seen
	seen   time.Duration // mu protects; monotonic; when that was seen first
}

var _ segment.Guard = (*Guard)(nil)

// OpenGuard returns at once and connects in the background. It fails only for what can
// never work. Of cfg it needs Servers and Clock.
func OpenGuard(cfg Config) (*Guard, error) {
	t, err := cfg.connect()
	return &Guard{tree: t}, err
}

// Connection implements segment.Guard.
func (g *Guard) Connection() uint64 { return g.session.Connection() }

// Open implements segment.Guard. In the root of a cluster that stands, it makes the parent
// of all high marks where that is missing: as one that has lost them, unless this is the
// first time.
func (g *Guard) Open(ctx context.Context) (segment.Opened, error) {
	s, _, err := g.stands(ctx) // waits for the connection
	o := segment.Opened{Conn: s.Conn, Settle: g.settleTime()}
	if err == nil {
		o.Wait, err = g.settling(ctx, s.Root)
	}
	if err != nil {
		return segment.Opened{}, isAway(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// A ZooKeeper that lost its data, or was put back to where it was, doesn't know the session, and
	// an operator notes the rest as a loss.
	o.Session = fmt.Sprintf("%x/%d/%d/%x", g.session.Info().ID, s.Root.Losses, s.Root.LostAt, g.parent)
	return o, nil
}

// settleTime is how long it takes until every daemon has found out that ZooKeeper lost data. A
// server grants the sessions that it wants: ours tells how long the others' are.
func (g *Guard) settleTime() time.Duration {
	return cmp.Or(g.cfg.Settle, max(g.cfg.SessionTimeout, g.session.Info().Timeout)+settleBeyondSession)
}

// settling returns for how long others may yet put high marks back that were lost with
// their parent.
func (g *Guard) settling(ctx context.Context, root *worker.Root) (time.Duration, error) {
	for {
		var d highRoot
		data, stat, err := g.read(ctx, g.high)
		if stat != nil {
			d, err = decode(g.high, data, d, segment.ErrGuardDamaged, `set it to {"settled":false}`, func(*highRoot) error { return nil })
		}
		if err != nil {
			return 0, err
		}
		now := g.cfg.Clock.Mono()
		g.mu.Lock()
		if stat != nil && g.parent != stat.Czxid {
			g.parent, g.seen = stat.Czxid, now
		}
		first, left := root.Losses == 0 && g.parent == 0, g.seen+g.settleTime()-now
		g.mu.Unlock()
		write := createNode(g.high, encode(highRoot{Settled: first}), 0)
		switch {
		case d.Settled:
			return 0, nil
		case stat != nil && left > 0:
			return left, nil
		case stat != nil:
			write = setData(g.high, encode(highRoot{Settled: true}), stat.Version)
		}
		if _, err := g.session.Multi(ctx, 0, write); err != nil && !errors.Is(err, zk.ErrNodeExists) && !errors.Is(err, zk.ErrBadVersion) {
			return 0, err
		}
	}
}

// Get implements segment.Guard.
func (g *Guard) Get(ctx context.Context, conn uint64, tag string) (segment.HighMark, error) {
	if g.session.Connection() != conn {
		return segment.HighMark{}, isAway(errors.New("the connection broke"))
	}
	p := g.highOf(tag)
	data, stat, err := g.session.Get(ctx, p)
	if errors.Is(err, zk.ErrNoNode) {
		return segment.HighMark{Version: -1, Conn: conn}, nil
	}
	if err != nil {
		return segment.HighMark{}, ofMark(err)
	}
	d, err := decodeHigh(p, data)
	if err != nil {
		return segment.HighMark{}, err
	}
	return segment.HighMark{High: d.High, By: d.By, Version: int64(stat.Version), Conn: conn, Written: time.UnixMilli(stat.Mtime)}, nil
}

// Put implements segment.Guard. Where there was no high mark it is created, and the version
// of what was not there can't be of another time.
func (g *Guard) Put(ctx context.Context, tag string, seen segment.HighMark, high int64, by string) (segment.HighMark, error) {
	p, data := g.highOf(tag), encode(highData{High: high, By: by})
	conn, write, err := seen.Conn, setData(p, data, int32(seen.Version)), error(nil) //nolint:gosec // it was one
	if seen.Version < 0 {
		conn, write, err = 0, createNode(p, data, 0), g.ensure(ctx, path.Dir(p))
	}
	if err == nil {
		_, err = g.session.Multi(ctx, conn, write)
	}
	switch {
	case errors.Is(err, zk.ErrNoNode) && seen.Version < 0:
		return segment.HighMark{}, isAway(fmt.Errorf("all high marks are gone: %w", err)) // Open makes their parent
	case isConflict(err):
		return segment.HighMark{}, fmt.Errorf("%w: %w", segment.ErrGuardConflict, err)
	case err != nil:
		return segment.HighMark{}, ofMark(err)
	}
	return segment.HighMark{High: high, By: by, Version: seen.Version + 1, Conn: seen.Conn}, nil
}

// Forget removes the high mark of tag, and returns it as it was; 0 where there was none.
func (g *Guard) Forget(ctx context.Context, tag string) (int64, error) {
	p := g.highOf(tag)
	data, stat, err := g.read(ctx, p)
	if err != nil || stat == nil {
		return 0, err
	}
	d, _ := decodeHigh(p, data) // one that is damaged is as good as any to remove
	_, err = g.session.Multi(ctx, 0, deleteNode(p, stat.Version))
	return d.High, err
}

// Tags returns the tags that have a high mark.
func (g *Guard) Tags(ctx context.Context) (tags []string, err error) {
	folders, _, err := g.children(ctx, g.high)
	for _, folder := range folders {
		names, _, err := g.children(ctx, g.high+"/"+folder)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			tag, err := url.PathUnescape(name) // escape's %XX
			if err == nil && escape(tag) == name {
				tags = append(tags, tag) // others are none of ours
			}
		}
	}
	return tags, err
}

// ofMark is err of a request for one high mark. What ZooKeeper says of the znode, such as that
// we have no permission, is no reason to take ZooKeeper for away.
func ofMark(err error) error {
	if zksession.AboutNode(err) {
		return err
	}
	return isAway(err)
}

// isAway is err of a guard that can't be asked, unless it is damaged.
func isAway(err error) error {
	if errors.Is(err, segment.ErrGuardDamaged) {
		return err
	}
	return fmt.Errorf("%w: %w", segment.ErrGuardAway, err)
}
