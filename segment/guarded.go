package segment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// A question to the guard is waited for as long as guardTrips of its round trips take, in these bounds.
	guardTrips               = 4
	guardShortest, guardMost = 250 * time.Millisecond, time.Second
	// guardAtOnce is how many marks are read in one round trip, as a session with ZooKeeper has requests under way;
	// one about more has as much more time.
	guardAtOnce = 14
	// guardGrace is how long a fetch that no request waits for is put off while the guard is
	// away: an election or a restart of the guard costs no unguarded fetch.
	guardGrace = 10 * time.Second
	// guardStart is how long the first fetches of a daemon wait for the guard.
	guardStart = 2 * time.Second
	// guardLook is how often the connection is looked at, which asks no server, guardAgain how soon a guard that
	// can't be used is asked again, and guardRoot how often the root is read. A guard that has let as many fetches
	// as guardFailures down in a row, though it was opened in between, isn't used for as long either.
	guardLook, guardAgain, guardRoot = 100 * time.Millisecond, 250 * time.Millisecond, 10 * time.Second
	guardFailures                    = 3
	// raiseTags is how many high marks are raised at once, raiseTries how often a conflict about one is tried again, and
	// raiseAgain when those that could not be raised are.
	raiseTags, raiseTries, raiseAgain = 64, 8, 10 * time.Second
)

var (
	// errOtherCluster is why a guard is away that answers.
	errOtherCluster = errors.New("the root is another cluster's: --zk or --zk-root is wrong, or the data directory is")
	errBroken       = errors.New("the connection broke")
)

// view is an open connection of the guard with its root, as it was read: what was read and written under one view
// counts for nothing under another.
type view struct {
	Opened
	fetches sync.WaitGroup // that use it
}

// guarded is what a service knows of its Guard:
//
//	guard-away  While the guard is away, or slower than guardTrips of its round trips, Config.GuardRequired fetches
//	    nothing. Otherwise fetches go on by the marks: at once where a request waits, after guardGrace where none does.
//	raised-after-a-loss  The marks of those fetches are raised in the guard first thing when it is back. After a loss of data
//	    that was noted in the root, and for which this daemon hasn't raised, all marks on this disk are, once the fetches
//	    that may be between high and mark are through or given up. A raise counts for the mark that it was sent with, keeps
//	    Deleted, and lowers nothing. A high mark that the guard refuses keeps no other from being raised.
//
// Service.mu protects what isn't immutable.
type guarded struct {
	svc   *Service // immutable
	guard Guard    // immutable
	by    string   // immutable; By of all that this life writes

	at       *view         // nil: it is away
	before   []*view       // that fetches may still use
	since    time.Duration // since when it is away
	err      error         // why
	failures int           // fetches that it let down since one has written
	trip     time.Duration // a round trip, as measured
	rootAt   time.Duration // when the root was read last
	notUntil time.Duration // when it may be opened again
	behind   bool          // there may be marks that are behind
	raiseAt  time.Duration // not before
	unraised bool          // ranges are in use that the guard doesn't know of
	wake     chan struct{} // holds one; ends a pause of keep

	unguarded, conflicts, givenUp atomic.Uint64
}

// permission is which fetches may begin now.
type permission uint8

const (
	mayNothing permission = iota
	mayUrgent             // what requests wait for
	mayAll
)

// guardLocked returns the view for fetches, nil for none, and which of them may begin (guard-away).
func (s *Service) guardLocked() (*view, permission) {
	g := s.guard
	if g == nil {
		return nil, mayAll
	}
	if g.at != nil && g.guard.Connection() != g.at.Conn {
		g.lostLocked(g.at, errBroken)
	}
	away := s.clock.Mono() - g.since
	switch {
	case g.at != nil:
		return g.at, mayAll
	case s.cfg.GuardRequired, away < g.patience():
		return nil, mayNothing
	case away < guardGrace:
		return nil, mayUrgent
	}
	return nil, mayAll
}

// patience bounds one question to the guard.
func (g *guarded) patience() time.Duration {
	return min(max(guardTrips*g.trip, guardShortest), guardMost)
}

// outageLocked returns why no tag gets a range now; nil where one may.
func (s *Service) outageLocked() error {
	if err := s.outage.err; err != nil {
		return err
	}
	if g := s.guard; g != nil && s.cfg.GuardRequired && g.at == nil && s.clock.Mono()-g.since >= g.patience() {
		return fmt.Errorf("%w, and nothing is fetched without it: %w", ErrGuardAway, g.err)
	}
	return nil
}

// lostLocked ends the use of a view: its connection broke, the guard didn't answer, or the root is another one.
func (g *guarded) lostLocked(at *view, err error) {
	if at == nil || g.at != at {
		return
	}
	g.at, g.err, g.since = nil, err, g.svc.clock.Mono()
	g.before = append(g.before, at)
	if !errors.Is(err, errBroken) {
		g.failures++
	}
	if g.failures >= guardFailures {
		g.failures, g.notUntil = guardFailures-1, g.since+guardRoot // one more try then
	}
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// asked asks the guard in so many round trips, and measures how long one takes. ErrGuardAway where it doesn't answer.
func asked[T any](g *guarded, trips int, do func(ctx context.Context) (T, error)) (T, error) {
	g.svc.mu.Lock()
	limit := time.Duration(trips) * g.patience()
	g.svc.mu.Unlock()
	began := g.svc.clock.Mono()
	answer, err := ask(g.svc, ErrGuardAway, limit, do)
	g.svc.mu.Lock()
	defer g.svc.mu.Unlock()
	if err == nil {
		g.measuredLocked((g.svc.clock.Mono() - began) / time.Duration(trips))
	}
	return answer, err
}

func (g *guarded) measuredLocked(trip time.Duration) {
	if g.trip == 0 {
		g.trip = trip
	}
	g.trip += (trip - g.trip) / 4
}

// read reads the high marks of tags.
func (g *guarded) read(at *view, tags []string) ([]HighMark, error) {
	highs, err := asked(g, (len(tags)+guardAtOnce-1)/guardAtOnce, func(ctx context.Context) ([]HighMark, error) { return g.guard.Read(ctx, at.Opened, tags) })
	if err != nil {
		return nil, fmt.Errorf("reading the high mark of %q: %w", tags[0], err)
	}
	return highs, nil
}

// write writes high marks.
func (g *guarded) write(at *view, marks []HighMark) error {
	_, err := asked(g, 1, func(ctx context.Context) (struct{}, error) { return struct{}{}, g.guard.Write(ctx, at.Opened, marks) })
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrGuardConflict) {
		g.conflicts.Add(1)
	}
	return fmt.Errorf("raising the high mark of %q to %d: %w", marks[0].Tag, marks[0].High, err)
}

// keep looks after the connection and the marks that are behind, until ctx is done.
func (g *guarded) keep(ctx context.Context) {
	for ctx.Err() == nil {
		pause := guardAgain
		if at := g.open(); at != nil {
			pause = guardLook
			g.raise(at)
		}
		g.svc.mu.Lock()
		g.svc.kickLocked() // what waited for the guard, or may go on without
		g.svc.mu.Unlock()
		g.svc.events.flush()
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-g.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// open returns the view that fetches use from now on; nil where there is none.
func (g *guarded) open() *view {
	s := g.svc
	s.mu.Lock()
	at, _ := s.guardLocked()
	began := s.clock.Mono()
	current := at != nil && began-g.rootAt < guardRoot || at == nil && began < g.notUntil
	s.mu.Unlock()
	if current {
		return at
	}
	opened, err := ask(s, ErrGuardAway, s.cfg.FetchTimeout, g.guard.Open)
	if err == nil {
		err = s.useStore(opened.Cluster)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		g.lostLocked(at, err)
		g.err = err
		return nil
	case g.at == nil, g.at.Opened != opened:
		g.lostLocked(g.at, errBroken)
		g.at, g.err, g.behind = &view{Opened: opened}, nil, true
		g.measuredLocked((s.clock.Mono() - began) / 2) // it has two round trips
	}
	g.rootAt = began
	return g.at
}

// raise raises what is behind, and after a loss everything (raised-after-a-loss).
func (g *guarded) raise(at *view) {
	s := g.svc
	s.mu.Lock()
	loss := s.note.Loss != at.Loss
	due, before := (g.behind || loss) && s.clock.Mono() >= g.raiseAt, g.before
	if due {
		g.behind, g.before = false, nil
	}
	s.mu.Unlock()
	if !due {
		return
	}
	for _, v := range before { // fetches that may be between high and mark
		v.fetches.Wait()
	}
	refused, err := g.raisePages(at, !loss)
	if err == nil && loss {
		s.mu.Lock()
		s.note.Loss = at.Loss
		s.mu.Unlock()
		if err = s.keepNote(); err != nil {
			s.mu.Lock()
			s.note.Loss = ""
			s.mu.Unlock()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case isAway(err):
		g.behind = true
		g.lostLocked(at, err)
	case err != nil, refused:
		g.behind, g.raiseAt = true, s.clock.Mono()+raiseAgain
	case !g.behind:
		g.unraised = false
	}
}

// raisePages raises the marks on this disk, all or those that are behind. refused: the guard has refused some, which are
// behind from now on.
func (g *guarded) raisePages(at *view, behind bool) (refused bool, err error) {
	s := g.svc
	for after := ""; ; {
		marks, err := ask(s, ErrMark, s.cfg.FetchTimeout, func(ctx context.Context) ([]Mark, error) {
			return s.cfg.HighWater.Page(ctx, after, raiseTags, behind)
		})
		if err != nil || len(marks) == 0 {
			return refused, err
		}
		after = marks[len(marks)-1].Tag
		raised, others := marks, []Mark(nil)
		if err = g.raiseMarks(at, marks); err != nil && !isAway(err) {
			raised, others, err = g.raiseEach(at, marks)
		}
		if err != nil {
			return refused, err
		}
		if len(raised) > 0 {
			err = s.bounded(ErrMark, func(ctx context.Context) error { return s.cfg.HighWater.Raised(ctx, raised) })
		}
		if err == nil && len(others) > 0 {
			refused = true
			err = s.bounded(ErrMark, func(ctx context.Context) error { return s.cfg.HighWater.Raise(ctx, others) })
		}
		if err != nil {
			return refused, err
		}
	}
}

// raiseEach raises marks one by one, and returns those that were raised, and those that the guard refuses.
func (g *guarded) raiseEach(at *view, marks []Mark) (raised, refused []Mark, err error) {
	for _, m := range marks {
		for range raiseTries { // others write it
			if err = g.raiseMarks(at, []Mark{m}); !errors.Is(err, ErrGuardConflict) {
				break
			}
		}
		switch {
		case err == nil:
			raised = append(raised, m)
		case isAway(err):
			return nil, nil, err
		default:
			m.Behind = true
			refused = append(refused, m)
		}
	}
	return raised, refused, nil
}

// raiseMarks sees to it that no high mark is below that of marks.
func (g *guarded) raiseMarks(at *view, marks []Mark) error {
	names := make([]string, len(marks))
	for i, m := range marks {
		names[i] = m.Tag
	}
	highs, err := g.read(at, names)
	if err != nil {
		return err
	}
	var writes []HighMark
	for i, m := range marks {
		h := highs[i]
		if h.Err != nil {
			return h.Err
		}
		if h.High < m.High {
			h.High, h.By = m.High, g.by
			writes = append(writes, h)
		}
	}
	if len(writes) == 0 {
		return nil
	}
	return g.write(at, writes)
}

// isAway reports whether a view is useless after err.
func isAway(err error) bool { return errors.Is(err, ErrGuardAway) || errors.Is(err, ErrGuardMoved) }

// withoutWhy returns why ranges are used that the guard doesn't know of; nil where none is. Service.mu is
// held.
func (g *guarded) withoutWhy() error {
	switch {
	case g == nil || !g.unraised:
		return nil
	case g.at == nil:
		return g.err
	}
	return errors.New("it is back, and still lacks high marks")
}

// GuardStatus is where a service stands with its guard, at one moment.
type GuardStatus struct {
	On        bool   // there is a guard
	Guarded   bool   // fetches use it
	Unguarded uint64 // ranges fetched without it
	Conflicts uint64 // writes that met another high mark than was read
	GivenUp   uint64 // ranges that were given up after their high marks were written
	Behind    bool   // marks are to be raised once the guard is back
}

// Guard returns where the service stands with its guard.
func (s *Service) Guard() GuardStatus {
	g := s.guard
	if g == nil {
		return GuardStatus{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return GuardStatus{
		On: true, Guarded: g.at != nil, Unguarded: g.unguarded.Load(), Conflicts: g.conflicts.Load(), GivenUp: g.givenUp.Load(), Behind: g.unraised,
	}
}
