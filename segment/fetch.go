package segment

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// errSkipped is the error of a tag with a row that another transaction holds, and errAlone that of one in a batch that
	// the store can't lock for as a whole.
	errSkipped = errors.New("the row was skipped")
	errAlone   = errors.New("to be fetched for alone")
	// errDeleted is the error of a tag without a row, with a deletion mark.
	errDeleted = fmt.Errorf("%w: it was deleted", ErrUnknownTag)
)

// fetching is a tag in a batch, and what its fetch has found out.
type fetching struct {
	*Tag
	want, floor int64 // IDs to ask for; where the range may begin
	row         Row
	high        HighMark // on the version of which the new one is written
	r           Range
	err         error // of this tag alone
}

// fetch gets the next ranges of a batch of tags. This is its way, from top to bottom; a range [lo, hi) of a tag
// is used only after all of it, in this order:
//
//	lock-then-high  The row is locked and max_id read; max_id is moved to hi; then high is written in the guard as hi; then
//	    COMMIT has returned OK; then the mark is on this disk.
//	conditional-update  max_id is moved by one statement, which is conditional on what was read, and changes one row.
//	high-mark-decides  lo is not below the high mark as it was read over this connection, and hi is written as the new one on
//	    that version and on the version of the root: so no two daemons use one ID, with any table. It is not
//	    read again only where max_id is the hi that this daemon wrote last; a root that changed, and another connection, drop
//	    what is known.
//	committed-alone  Nothing shares the packet of COMMIT, and a range is used only once its COMMIT was confirmed.
//	moved-forward  lo is the greatest of max_id, high, and the mark on this disk; max_id is left at hi. A table that went
//	    backwards is so moved forward.
//	marks-before-use  The mark is read when the tag is first asked for, and on this disk before an ID below it is used.
//
// What ends without an answer on this way is given up: a gap. Returned is what concerns all tags of the batch; what
// concerns one stands in its err.
func (s *Service) fetch(b *batch) error {
	if err := s.tryMarks(); err != nil {
		return err
	}
	names := b.names()
	if len(names) == 1 && !b.slow && !b.single {
		names = append(names, "") // no row has that name: of several rows those that are locked are skipped
	}
	tx, err := ask(s, ErrStore, s.cfg.FetchTimeout, func(ctx context.Context) (Tx, error) { return s.cfg.Store.Begin(ctx, names) })
	if err != nil {
		return err
	}
	defer func() { // after a COMMIT it does nothing
		_ = s.bounded(ErrStore, func(ctx context.Context) error { tx.Rollback(ctx); return nil })
	}()
	s.takeRows(b, tx)
	if err := s.readHighs(b); err != nil {
		return err
	}
	moves := b.reserve()
	if len(moves) == 0 {
		return nil
	}
	if err := s.bounded(ErrStore, func(ctx context.Context) error { return tx.Move(ctx, moves) }); err != nil {
		return err
	}
	b.answered = true
	if err := s.writeHighs(b); err != nil {
		return err
	}
	if err := s.bounded(ErrStore, tx.Commit); err != nil {
		if b.at != nil {
			s.guard.givenUp.Add(uint64(len(moves)))
		}
		return err
	}
	return s.writeMarks(b)
}

// names returns the names of the tags of a batch.
func (b *batch) names() []string {
	names := make([]string, len(b.tags))
	for i, f := range b.tags {
		names[i] = f.name
	}
	return names
}

// good returns those of the tags of a batch with which nothing is wrong yet.
func (b *batch) good() []*fetching {
	var good []*fetching
	for _, f := range b.tags {
		if f.err == nil {
			good = append(good, f)
		}
	}
	return good
}

// takeRows gives each tag its row, or what is wrong with it.
func (s *Service) takeRows(b *batch, tx Tx) {
	b.server = tx.Server()
	rows := make(map[string][]Row)
	for _, r := range tx.Rows() {
		rows[r.Tag] = append(rows[r.Tag], r)
	}
	skipped := make(map[string]error)
	for _, name := range tx.Skipped() {
		switch skipped[name] = errSkipped; {
		case b.slow, b.single: // it was to be waited for
			skipped[name] = ErrLocked
		case len(rows) == 0:
			skipped[name] = errAlone
		}
	}
	var missing []string
	for _, f := range b.tags {
		switch found := rows[f.name]; {
		case skipped[f.name] != nil:
			f.err = skipped[f.name]
		case len(found) == 0:
			f.err = ErrRowMissing
			missing = append(missing, f.name)
		case len(found) > 1:
			f.err = fmt.Errorf("%w: there are %d rows of the tag; biz_tag has to be a unique key", ErrBadRow, len(found))
		default:
			f.row = found[0]
		}
	}
	if len(missing) == 0 {
		return
	}
	deleted, err := s.deletedOf(b.at, missing)
	for _, f := range b.tags {
		switch {
		case !errors.Is(f.err, ErrRowMissing):
		case deleted[f.name]:
			f.err = errDeleted
		case err != nil:
			f.err = fmt.Errorf("%w, and whether it was deleted isn't known: %w", ErrRowMissing, err)
		}
	}
}

// deletedOf returns those of tags that have a deletion mark; err tells why that isn't known of others.
func (s *Service) deletedOf(at *view, tags []string) (deleted map[string]bool, err error) {
	deleted = make(map[string]bool)
	if at != nil {
		highs, err := s.guard.read(at, tags)
		for _, h := range highs {
			deleted[h.Tag] = h.Deleted
		}
		return deleted, err
	}
	marks, err := s.marksOf(tags)
	for tag, m := range marks {
		deleted[tag] = m.Deleted
	}
	return deleted, err
}

// readHighs reads the high marks that aren't known (high-mark-decides).
func (s *Service) readHighs(b *batch) error {
	if b.at == nil {
		return nil
	}
	var unknown []*fetching
	var names []string
	s.mu.Lock()
	for _, f := range b.good() {
		if f.high.High, f.high.Version = f.known.high, f.known.version; f.known.at != b.at || f.row.MaxID != f.known.high {
			unknown, names = append(unknown, f), append(names, f.name)
		}
	}
	s.mu.Unlock()
	if len(unknown) == 0 {
		return nil
	}
	highs, err := s.guard.read(b.at, names)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range unknown {
		f.high, f.err = highs[i], highs[i].Err
		f.Tag.floor = max(f.Tag.floor, f.high.High)
		f.floor, f.last = f.Tag.floor, lastHigh{f.high.High, f.high.WroteAt, NodeOf(f.high.By)}
	}
	return nil
}

// reserve chooses the ranges (moved-forward). Near the end of int64 a grown step may not fit where the table's own
// does.
func (b *batch) reserve() []Move {
	var moves []Move
	for _, f := range b.good() {
		if f.r, f.err = Reserve(f.row, f.want, f.floor); f.err != nil {
			f.r, f.err = Reserve(f.row, 1, f.floor)
		}
		if f.err == nil {
			moves = append(moves, Move{Tag: f.name, From: f.row.MaxID, To: f.r.Hi})
		}
	}
	return moves
}

// writeHighs writes the ends of the ranges as high marks, in one transaction of the guard.
func (s *Service) writeHighs(b *batch) error {
	if b.at == nil {
		return nil
	}
	good := b.good()
	marks := make([]HighMark, len(good))
	for i, f := range good {
		marks[i] = HighMark{Tag: f.name, High: f.r.Hi, Seen: f.row.MaxID, On: b.server, By: s.guard.by, Version: f.high.Version}
	}
	err := s.guard.write(b.at, marks)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range good {
		if f.known = (highAt{}); err == nil {
			f.known = highAt{b.at, f.r.Hi, f.high.Version + 1}
			f.last = lastHigh{f.r.Hi, s.nowMillis(), s.cfg.Node}
			f.Tag.floor = max(f.Tag.floor, f.r.Hi)
		}
	}
	if err == nil {
		s.guard.failures = 0
	}
	return err
}

// writeMarks writes the marks (marks-before-use).
func (s *Service) writeMarks(b *batch) error {
	var marks []Mark
	for _, f := range b.good() {
		marks = append(marks, Mark{Tag: f.name, High: f.r.Hi, Behind: s.guard != nil && b.at == nil})
	}
	if err := s.raise(marks); err != nil {
		return err
	}
	s.noteServer(b.server)
	return nil
}

// tryMarks writes marks again that could not be written, before anything is fetched: a full disk must
// not eat a range of the table at every attempt. Their ranges are given up, so that any of them will do.
func (s *Service) tryMarks() error {
	s.mu.Lock()
	marks := s.unmarked
	s.mu.Unlock()
	if len(marks) == 0 {
		return nil
	}
	return s.raise(marks)
}

// raise writes marks; ErrMark.
func (s *Service) raise(marks []Mark) error {
	err := s.bounded(ErrMark, func(ctx context.Context) error { return s.cfg.HighWater.Raise(ctx, marks) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unmarked = nil; err == nil || s.fetchCtx.Err() != nil {
		return err
	}
	s.unmarked = marks
	return fmt.Errorf("%w: of %q: %w", ErrMark, marks[0].Tag, err)
}

// noteServer keeps which server has the rows, and tells when it is another one.
func (s *Service) noteServer(server string) {
	s.mu.Lock()
	was := s.note.Server
	s.note.Server = server
	s.mu.Unlock()
	if was == server {
		return
	}
	if was != "" {
		s.events.add(Event{Kind: KindServer, Was: was, Now: server})
	}
	_ = s.keepNote() // for people: where it fails the change is told again after a restart
}

// keepNote writes the note of our store.
func (s *Service) keepNote() error {
	s.noteMu.Lock()
	defer s.noteMu.Unlock()
	s.mu.Lock()
	note := s.note
	s.mu.Unlock()
	return s.bounded(ErrMark, func(ctx context.Context) error { return s.cfg.HighWater.SetNote(ctx, note) })
}

// fetcher works on the queue until there is nothing to do.
func (s *Service) fetcher() {
	for {
		s.mu.Lock()
		b := s.takeLocked()
		if b == nil {
			s.queue.fetchers--
			s.mu.Unlock()
			return
		}
		if b.at != nil {
			b.at.fetches.Add(1)
		}
		s.mu.Unlock()
		began := s.clock.Mono()
		err := s.fetch(b)
		took := s.clock.Mono() - began
		if b.at != nil {
			b.at.fetches.Done()
		}
		stopping := s.fetchCtx.Err() != nil && err != nil
		s.mu.Lock()
		s.settleLocked(b, err)
		s.mu.Unlock()
		s.events.flush()
		for _, f := range b.tags {
			e := firstOf(f.err, err)
			if s.cfg.Fetched != nil && !stopping && !errors.Is(e, errAlone) && !errors.Is(e, errSkipped) {
				s.cfg.Fetched(f.name, took, e)
			}
		}
	}
}

// tellLocked tells what a fetch that succeeded has shown of the table.
func (s *Service) tellLocked(b *batch, f *fetching) {
	t, now := f.Tag, s.clock.Mono()
	switch {
	case f.row.MaxID < t.mark && t.markedOn == b.server, b.at != nil && f.row.MaxID < f.high.Seen && f.high.On == b.server:
		s.events.add(Event{Kind: KindMoved, Tag: t.name, High: f.r.Lo, Count: f.r.Lo - f.row.MaxID})
	case b.at != nil && f.high.Version >= 0 && f.row.MaxID > f.high.High: // no high mark covers what was taken
		t.foreign = [2]time.Duration{t.foreign[1], now}
		t.foreigns++
		s.troubled[t] = struct{}{}
	}
	if b.at == nil && s.guard != nil {
		s.guard.unguarded.Add(1)
		s.guard.behind, s.guard.unraised, s.guard.raiseAt = true, true, 0
	}
}

// bounded calls ask within Config.FetchTimeout, and returns its error.
func (s *Service) bounded(is error, do func(ctx context.Context) error) error {
	_, err := ask(s, is, s.cfg.FetchTimeout, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

// ask calls do with a context that ends with Run, or limit after now; is is what no answer means.
func ask[T any](s *Service, is error, limit time.Duration, do func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(s.fetchCtx, limit, ErrLate)
	defer cancel()
	answer, err := do(ctx)
	if err != nil && errors.Is(context.Cause(ctx), ErrLate) {
		// Cut from the chain: a request must not take this for its own context's end.
		err = fmt.Errorf("%w: %w within %v: %v", is, ErrLate, limit, err) //nolint:errorlint // see above
	}
	return answer, err
}
