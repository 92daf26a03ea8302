package segment

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// guardPatience is how long a fetch that a request waits for waits for the guard, at
	// most, where it may go on without: less than Config.Wait, for the fetch has to follow.
	guardPatience = 400 * time.Millisecond
	// guardGrace is how long a fetch that no request waits for is put off while the guard is
	// away: an election or a restart of the guard costs no unguarded fetch.
	guardGrace = 10 * time.Second
	// guardStart is how long the first pass over the table waits for the guard, so that
	// the first fetches of a daemon are guarded.
	guardStart = 2 * time.Second
	// guardLook is how often the connection is looked at: a look asks no server.
	guardLook = 50 * time.Millisecond
	// guardRefused is how long keepGuarded raises nothing after the guard has refused to be written.
	guardRefused = time.Second
	// guardAttempts bounds one attempt's races with other daemons for a tag.
	guardAttempts = 100
	// guardFirst and guardCompare are how many high marks are raised at once: those that
	// are known to be too low, and the others.
	guardFirst, guardCompare = 8, 4
)

// errPostponed is returned for a fetch that waits for the guard, since no request waits
// for the fetch.
var errPostponed = errors.New("the fetch waits for the guard")

// guarded is what a service knows of its Guard. The database proposes a range, the guard
// disposes:
//
//	high-mark-decides  A range [Lo, Hi) is used only after Guard.Put(tag, …, Hi), on the
//	    connection on which a high mark at or below Lo was read, then the commit, then
//	    HighWater.Raise(tag, Hi) have returned nil, in this order. High is read and
//	    written while the row is locked, so that daemons come one after the other. After
//	    a conflict it is read again in the same transaction, and Lo raised. Without an
//	    answer of the guard or to the commit the range is given up (a gap): what is fetched
//	    next begins above it. So used ranges are disjoint regardless of what the table shows.
//	    By tells which are of this life: a table below one of them that was given up, and not
//	    below any other, never went backwards.
//	moved-forward  A guarded fetch begins at or above max_id, the high mark and the local
//	    mark, and leaves max_id at its end: a table that went backwards is moved forward
//	    in the same transaction. What passes have seen of it counts without the guard, and
//	    with Config.RefuseRegressed, where it is refused; else a max_id that was set too
//	    high by mistake can be set back before it is fetched from.
//	marks-loaded-first  All local marks are known before the first tag is served. Without the
//	    guard a table below them, or below what a pass has shown, is refused.
//	raised-when-back  While the guard is away Config.GuardRequired fetches nothing. Otherwise
//	    fetches go on by marks-loaded-first: at once where a request waits, after guardGrace
//	    where none does; one that isn't used yet when it is back is given up. The tags
//	    of those fetches are raised in the guard first thing
//	    when it is back, and in each new session the marks of all tags, since the
//	    guard may have lost them: not in one that goes on (Opened.Session), as over an
//	    election. A fetch raises its own tag by itself. A high mark that the
//	    guard refuses to write keeps no other from being raised, and is tried for again; its
//	    tag is fetched for in neither way. With GuardRequired a session that is
//	    not the first counts only Opened.Settle later, and one to a guard that has
//	    lost everything Opened.Wait: until all the others have put theirs back too.
//	deleted-mark-stays  A deleted tag's high mark stays: made again it goes on above it. Table.Delete
//	    records the row's max_id in HighWater and the Guard while it holds the row, and
//	    Table.Create begins above both, and what passes have shown. Where others may have
//	    used more (the Guard is away; there is none, and the row was deleted elsewhere) the
//	    operator has to say where the tag begins.
//	-  A table that is behind the ranges of other daemons at two guarded fetches of
//	    one tag in a row isn't their table: the first fetch has moved it forward
//	    (moved-forward). It is told with both names (ErrTablesDiffer): while the guard is away
//	    such tables repeat each other's IDs.
type guarded struct {
	svc   *Service // immutable
	guard Guard    // immutable
	life  string   // immutable; begins each By: the node's name, and what no other life has

	fetch     atomic.Uint64 // numbers the ranges
	unguarded atomic.Uint64
	conflicts atomic.Uint64
	givenUp   atomic.Uint64

	mu      sync.Mutex
	conn    uint64        // mu protects; the connection that fetches use; 0: away
	since   time.Duration // mu protects; since when it is away
	err     error         // mu protects; why it is away
	changed chan struct{} // mu protects; closed when conn changes
	// behind has what was used without the guard, or before it had lost it: it is raised
	// first. mu protects.
	behind       map[string]int64
	refusedUntil time.Duration // of keepGuarded; the guard has refused one of behind
	used         bool          // mu protects; ranges are in use that the guard doesn't know of
}

func newGuarded(s *Service) *guarded {
	return &guarded{
		svc: s, guard: s.cfg.Guard, life: s.cfg.Node + "/" + rand.Text(), changed: make(chan struct{}), behind: make(map[string]int64),
		since: s.clock.Mono(), err: errors.New("it was not reached yet"),
	}
}

// name names a range in the guard, or a raise of all.
func (g *guarded) name() string { return g.life + "/" + strconv.FormatUint(g.fetch.Add(1), 10) }

// isOurs tells whether this life has written a high mark.
func (g *guarded) isOurs(by string) bool { return strings.HasPrefix(by, g.life+"/") }

// takeInLocked takes in a high mark that was read (never-below-seen). One of ours tells nothing: what
// we have used is in the marks, and what others had used by then was taken in before we wrote it.
func (g *guarded) takeInLocked(b *buffer, m HighMark) {
	if !g.isOurs(m.By) {
		b.high = max(b.high, m.High)
	}
}

// patience bounds one question to the guard.
func (g *guarded) patience() time.Duration {
	if g.svc.cfg.GuardRequired {
		return g.svc.cfg.FetchTimeout
	}
	return min(guardPatience, g.svc.cfg.Wait*3/4, g.svc.cfg.FetchTimeout)
}

// ask calls do with a context that ends with the patience. An error that is none of a
// Guard's is one of the way there.
func (g *guarded) ask(do func(ctx context.Context) error) error {
	return g.svc.boundedBy(g.patience(), do)
}

func (g *guarded) get(conn uint64, tag string) (m HighMark, err error) {
	err = g.ask(func(ctx context.Context) (err error) {
		m, err = g.guard.Get(ctx, conn, tag)
		return err
	})
	return m, err
}

func (g *guarded) put(tag string, seen HighMark, high int64, by string) (m HighMark, err error) {
	err = g.ask(func(ctx context.Context) (err error) {
		m, err = g.guard.Put(ctx, tag, seen, high, by)
		return err
	})
	if errors.Is(err, ErrGuardConflict) {
		g.conflicts.Add(1)
	}
	return m, err
}

// live returns the connection that fetches use, 0 while the guard is away, since when, what is closed
// when that changes, and why it is so.
func (g *guarded) live() (conn uint64, since time.Duration, changed <-chan struct{}, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conn != 0 && g.conn != g.guard.Connection() {
		g.awayLocked(errors.New("the connection broke"), g.svc.clock.Mono())
	}
	return g.conn, g.since, g.changed, g.err
}

// await returns the connection that fetches use, 0 where the guard is away for longer than
// the patience, with for how long and why.
func (g *guarded) await() (conn uint64, away time.Duration, why error) {
	for {
		conn, since, changed, why := g.live()
		away := g.svc.clock.Mono() - since
		left := g.patience() - away
		if conn != 0 || left <= 0 {
			return conn, away, why
		}
		err := g.svc.boundedBy(left, func(ctx context.Context) error {
			select {
			case <-changed:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil {
			return 0, g.svc.clock.Mono() - since, why
		}
	}
}

// away ends the use of conn, on which the guard didn't answer what was asked at since.
func (g *guarded) away(conn uint64, err error, since time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conn == conn {
		g.awayLocked(err, since)
	}
}

func (g *guarded) awayLocked(err error, since time.Duration) {
	g.conn, g.err, g.since = 0, err, since
	g.changedLocked()
}

func (g *guarded) changedLocked() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// goesWithout notes that the range of tag that ends at high is used without the guard.
// False where the guard is back: then it is to be asked.
func (g *guarded) goesWithout(tag string, high int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conn != 0 {
		return false
	}
	g.behind[tag] = max(g.behind[tag], high)
	g.unguarded.Add(1)
	g.used = true
	return true
}

// without says why ranges are used that the guard doesn't know of; nil where none is.
func (g *guarded) without() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !g.used:
		return nil
	case g.err == nil:
		return fmt.Errorf("it is back, and still lacks high marks (tags: %d)", len(g.behind))
	default:
		return g.err
	}
}

// obtainGuarded is obtain with a guard.
func (s *Service) obtainGuarded(t *Tag, b *buffer) (Range, error) {
	g := s.guarded
	for {
		if b.pending != (Range{}) && b.disposed {
			return s.mark(t, b)
		}
		conn, away, why := g.await()
		if conn != 0 {
			t.giveUp(b)
			began := s.clock.Mono()
			err := s.dispose(t, b, conn)
			switch {
			case errors.Is(err, ErrGuardAway):
				g.away(conn, err, began)
			case err != nil:
				return Range{}, err
			}
			continue
		}
		if s.cfg.GuardRequired {
			return Range{}, fmt.Errorf("%w: no range of %q is fetched without it: %w", ErrGuardAway, t.name, why)
		}
		t.mu.Lock()
		wanted := b.waiting > 0
		t.mu.Unlock()
		if !wanted && away < guardGrace && s.fetchCtx.Err() == nil {
			return Range{}, errPostponed
		}
		r, err := s.propose(t, b)
		if err != nil || g.goesWithout(t.name, r.Hi) {
			return r, err
		}
	}
}

// giveUp drops a range that was fetched without the guard, which is back.
func (t *Tag) giveUp(b *buffer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b.pending != (Range{}) {
		t.svc.guarded.givenUp.Add(1)
	}
	b.pending = Range{}
}

// dispose fetches a range that the guard has made ours (high-mark-decides, moved-forward).
func (s *Service) dispose(t *Tag, b *buffer, conn uint64) error {
	t.mu.Lock()
	floor := t.usedLocked()
	t.mu.Unlock()
	wrote := false
	err := s.fetch(t, b, floor, true, func(ctx context.Context, want int64) (Range, error) {
		return s.cfg.Store.FetchGuarded(ctx, t.name, want, func(reserve func(int64, bool) (Range, error)) (err error) {
			Answered(ctx) // the row is ours
			wrote, err = s.guarded.write(t, b, conn, floor, reserve)
			Answered(ctx)
			return err
		})
	})
	if err != nil && wrote {
		s.guarded.givenUp.Add(1)
	}
	return err
}

// write writes the end of the range that reserve gives as the high mark. wrote: it is, or may be.
func (g *guarded) write(t *Tag, b *buffer, conn uint64, floor int64, reserve func(int64, bool) (Range, error)) (wrote bool, err error) {
	by := g.name()
	for range guardAttempts {
		m, err := g.get(conn, t.name)
		if err != nil {
			return wrote, fmt.Errorf("reading the high mark of %q: %w", t.name, err)
		}
		if known := b.known; known.Conn == conn && m.High < known.High { // of other tags as well, perhaps
			b.known = HighMark{}
			return wrote, fmt.Errorf("%w: the high mark of %q was %d, and is %d", ErrGuardAway, t.name, known.High, m.High)
		}
		b.known = m
		t.mu.Lock()
		g.takeInLocked(b, m)
		floor, b.before, b.taken = max(floor, b.high), m.By, m
		t.mu.Unlock()
		above := !g.svc.cfg.RefuseRegressed
		if !above && g.isOurs(m.By) { // it may have been given up: the table isn't behind for that
			if _, err := reserve(floor, false); err != nil {
				return wrote, err
			}
			above = true
		}
		r, err := reserve(max(floor, m.High), above)
		if err != nil {
			return wrote, err
		}
		t.mu.Lock()
		b.written, b.writtenOn = max(b.written, r.Hi), conn
		t.mu.Unlock()
		next, err := g.put(t.name, m, r.Hi, by)
		if err == nil {
			b.known = next
			wallNS, _ := g.svc.clock.Wall()
			next.Written = time.Unix(0, wallNS)
			t.mu.Lock()
			b.taken = next
			t.mu.Unlock()
			return true, nil
		}
		if !errors.Is(err, ErrGuardConflict) {
			return true, fmt.Errorf("raising the high mark of %q to %d: %w", t.name, r.Hi, err)
		}
	}
	return wrote, fmt.Errorf("the high mark of %q changed %d times while a range was fetched", t.name, guardAttempts)
}

// keepGuarded looks after the connection until ctx is done, and first thing raises the high
// marks that this daemon knows to be too low (raised-when-back).
func (s *Service) keepGuarded(ctx context.Context) {
	g := s.guarded
	var compared, session string
	for ctx.Err() == nil {
		conn, err := g.open(ctx, &session)
		if err == nil && s.clock.Mono() >= g.refusedUntil {
			err = g.raiseBehind(ctx, conn)
		}
		switch {
		case err != nil:
			g.failed(err)
		case s.Loaded() && compared != session && g.raiseAll(ctx, conn, guardCompare, ownMarks(*s.tags.Load(), conn)) == nil:
			compared = session
		}
		s.events.flush()
		_ = s.clock.Sleep(ctx, guardLook) // an error means that it is stopping
	}
}

// failed notes why the guard is away.
func (g *guarded) failed(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conn == 0 {
		g.err = err
	}
}

// open returns the connection that fetches use from now on, and sets the session that it is
// one of.
func (g *guarded) open(ctx context.Context, session *string) (uint64, error) {
	if conn, _, _, _ := g.live(); conn != 0 {
		return conn, nil
	}
	var opened Opened
	err := g.svc.bounded(func(ctx context.Context) (err error) {
		opened, err = g.guard.Open(ctx)
		return err
	})
	if err != nil {
		return 0, err
	}
	name := cmp.Or(opened.Session, strconv.FormatUint(opened.Conn, 10))
	if *session == "" || name == *session {
		opened.Settle = 0
	}
	if err := g.settle(ctx, opened); err != nil {
		return 0, err
	}
	*session = name
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conn, g.err = opened.Conn, nil
	g.changedLocked()
	return opened.Conn, nil
}

// raiseBehind raises what was used without the guard.
func (g *guarded) raiseBehind(ctx context.Context, conn uint64) error {
	g.mu.Lock()
	marks := make([]ownMark, 0, len(g.behind))
	for tag, high := range g.behind {
		marks = append(marks, ownMark{tag, high})
	}
	g.mu.Unlock()
	if err := g.raiseAll(ctx, conn, guardFirst, marks); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used = g.used && len(g.behind) > 0
	return nil
}

// settle waits, where the guard is required, until other daemons have put back what the
// guard may have lost; our own marks are put back first.
func (g *guarded) settle(ctx context.Context, opened Opened) error {
	wait := max(opened.Wait, opened.Settle)
	if !g.svc.cfg.GuardRequired || wait <= 0 {
		return nil
	}
	g.mu.Lock()
	g.err = fmt.Errorf("it may have lost high marks: waiting %s for the daemons that know them", wait)
	g.mu.Unlock()
	until := g.svc.clock.Mono() + wait
	if err := g.raiseBehind(ctx, opened.Conn); err != nil {
		return err
	}
	if tags := g.svc.tags.Load(); tags != nil {
		if err := g.raiseAll(ctx, opened.Conn, guardFirst, ownMarks(*tags, opened.Conn)); err != nil {
			return err
		}
	}
	for g.svc.clock.Mono() < until {
		if err := g.svc.clock.Sleep(ctx, min(guardLook, until-g.svc.clock.Mono())); err != nil {
			return err
		}
		if g.guard.Connection() != opened.Conn {
			return errors.New("the connection broke")
		}
	}
	if opened.Wait == 0 {
		return nil
	}
	return g.svc.bounded(func(ctx context.Context) error { // it notes that the time is over
		_, err := g.guard.Open(ctx)
		return err
	})
}

// ownMark is what this daemon has used of a tag, or is about to use.
type ownMark struct {
	tag  string
	high int64
}

// ownMarks returns the marks of tags, and what fetches under way have written of them: a guard
// that lost it would give it to another daemon before the mark is on disk. On conn, which is
// still open, none was lost: to raise it would be a conflict with the fetch itself.
func ownMarks(tags map[string]*Tag, conn uint64) []ownMark {
	var marks []ownMark
	for name, t := range tags {
		t.mu.Lock()
		high := t.marked
		if t.buf != nil && t.buf.writtenOn != conn {
			high = max(high, t.buf.written)
		}
		t.mu.Unlock()
		if high > 0 {
			marks = append(marks, ownMark{name, high})
		}
	}
	return marks
}

// raiseAll sees to it that no high mark is below marks, some at a time.
func (g *guarded) raiseAll(ctx context.Context, conn uint64, atOnce int, marks []ownMark) error {
	raises, ctx := errgroup.WithContext(ctx)
	raises.SetLimit(atOnce)
	for _, m := range marks {
		raises.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return g.raise(conn, m)
		})
	}
	return raises.Wait()
}

// raise sees to it that the tag's high mark is not below m. One that is damaged is left to
// the fetch of its tag, and keeps no other from being raised; so does one that the guard
// refuses to write, which stays behind.
func (g *guarded) raise(conn uint64, m ownMark) error {
	by := g.name()
	for {
		seen, err := g.get(conn, m.tag)
		if errors.Is(err, ErrGuardDamaged) || err == nil && seen.High >= m.high {
			g.raised(m)
			return nil
		}
		if err == nil {
			if t := g.svc.tag([]byte(m.tag)); t != nil {
				t.mu.Lock()
				if t.buf != nil {
					g.takeInLocked(t.buf, seen)
				}
				t.mu.Unlock()
			}
			_, err = g.put(m.tag, seen, m.high, by)
		}
		switch {
		case err == nil:
			g.raised(m)
			return nil
		case errors.Is(err, ErrGuardConflict):
		case errors.Is(err, ErrGuardAway), g.svc.fetchCtx.Err() != nil:
			return fmt.Errorf("raising the high mark of %q to %d: %w", m.tag, m.high, err)
		default:
			g.raiseLater(m.tag, m.high)
			g.mu.Lock()
			g.refusedUntil = g.svc.clock.Mono() + guardRefused
			g.mu.Unlock()
			return nil
		}
	}
}

// raised notes that m is no longer to be raised.
func (g *guarded) raised(m ownMark) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.behind[m.tag] <= m.high {
		delete(g.behind, m.tag)
	}
}

// GuardStatus is where a service stands with its guard, at one moment.
type GuardStatus struct {
	On        bool   // there is a guard
	Guarded   bool   // fetches use it
	Unguarded uint64 // ranges fetched without it
	Conflicts uint64 // writes that met another high mark than was read
	GivenUp   uint64 // ranges that were given up for that
	Behind    int    // tags with a high mark to raise once the guard is back
}

// Guard returns where the service stands with its guard.
func (s *Service) Guard() GuardStatus {
	g := s.guarded
	if g == nil {
		return GuardStatus{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return GuardStatus{
		On: true, Guarded: g.conn != 0, Unguarded: g.unguarded.Load(), Conflicts: g.conflicts.Load(), GivenUp: g.givenUp.Load(), Behind: len(g.behind),
	}
}

// raiseLater has the high mark of tag raised on the next look.
func (g *guarded) raiseLater(tag string, high int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.behind[tag] = max(g.behind[tag], high)
}

// awaitStart waits for the guard at a start.
func (g *guarded) awaitStart() {
	g.mu.Lock()
	g.since = g.svc.clock.Mono() + guardStart - g.patience()
	g.mu.Unlock()
	_, _, _ = g.await() // without the guard the first pass goes on
}
