package segment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// loadRetry is how long after a pass that failed the next one comes: a database that was away
// serves soon after it is back, and one that is busy is asked for all rows once a second at most.
const loadRetry = time.Second

// wholeEvery is how often a pass shows every row of a table that tells what has changed.
const wholeEvery = time.Hour

// keepLoaded reads the tags again and again until ctx is done.
func (s *Service) keepLoaded(ctx context.Context) {
	for {
		wait := s.cfg.Refresh
		if s.read(ctx, pass{counts: true}) != nil { // Troubles tells the error
			wait = loadRetry
		}
		if s.clock.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// Reload reads the tags now, as after a change of the table by ourselves: the rows of
// deleted were. It returns the store's error, or ctx's.
func (s *Service) Reload(ctx context.Context, deleted ...string) error {
	return s.read(ctx, pass{deleted: deleted})
}

// pass is one reading of the table.
type pass struct {
	counts  bool     // it is one of Run's
	deleted []string // tags of rows that were deleted by ourselves

	view  View
	added map[string]*Tag // tags that are new
	known int             // how many of the others it has shown
}

// read makes a pass over the table. Only a complete one changes anything but marks:
// rows that a failed pass did not get to are not taken for missing.
func (s *Service) read(ctx context.Context, p pass) error {
	select {
	case s.loading <- struct{}{}:
		defer func() { <-s.loading }()
	case <-ctx.Done():
		return fmt.Errorf("reading the tags: %w", ctx.Err())
	}
	defer s.events.flush()
	err := s.readTags(ctx, &p)
	if ctx.Err() != nil && err != nil {
		return fmt.Errorf("reading the tags: %w", err) // the caller's doing, no change of state
	}
	s.tagsMu.Lock()
	defer s.tagsMu.Unlock()
	if err != nil {
		err = fmt.Errorf("reading the tags: %w", err)
		s.loadErr = err
		return err
	}
	first := !s.Loaded()
	s.applyLocked(p)
	s.loaded.Store(true)
	count := int64(len(*s.tags.Load()))
	if first {
		s.events.add(Event{Kind: KindLoaded, Count: count})
	}
	s.loadErr = nil
	return nil
}

// readTags reads the table. Known tags cost no allocation. It is cut short where it gets no
// row for Config.FetchTimeout, however long the whole pass takes.
func (s *Service) readTags(ctx context.Context, p *pass) error {
	ctx, end := patient(ctx, s.cfg.FetchTimeout)
	defer end()

	if err := s.readMarks(ctx); err != nil {
		return err
	}
	var tags map[string]*Tag
	if known := s.tags.Load(); known != nil {
		tags = *known
	}
	now := s.pass.Add(1)
	p.added = make(map[string]*Tag)
	last := s.view
	if s.doubt.Swap(false) || len(p.deleted) > 0 || s.clock.Mono()-s.wholeAt >= wholeEvery {
		last = View{}
	}
	s.view = View{} // of a pass that fails
	var err error
	p.view, err = s.cfg.Store.Each(ctx, last, func(name []byte, maxID, step int64) error {
		Answered(ctx)
		if t := tags[string(name)]; t != nil {
			t.seen = now
			t.observe(maxID, step)
			p.known++
			return nil
		}
		if t := p.added[string(name)]; t != nil {
			t.observed = max(t.observed, maxID)
			return nil
		}
		t := &Tag{svc: s, name: string(name), observed: max(maxID, 0), step: step, seen: now}
		p.added[t.name] = t
		return nil
	})
	if err != nil && errors.Is(context.Cause(ctx), ErrLate) {
		// Cut from the chain: it was cancelled by us, not by the caller.
		err = fmt.Errorf("%w: no row for %v: %v", ErrLate, s.cfg.FetchTimeout, err) //nolint:errorlint // see above
	}
	if err == nil {
		if s.view = p.view; s.view.Whole {
			s.wholeAt = s.clock.Mono()
		}
	}
	return err
}

// readMarks reads all local marks, once (marks-loaded-first). Marks that can't be read are not 0:
// nothing is served.
func (s *Service) readMarks(ctx context.Context) error {
	if s.marksRead {
		return nil
	}
	marks := make(map[string]former)
	err := s.cfg.HighWater.Marks(ctx, func(tag string, high int64) { marks[tag] = former{marked: high} })
	if err != nil {
		return fmt.Errorf("%w: reading the marks: %w", ErrMark, err)
	}
	s.tagsMu.Lock()
	defer s.tagsMu.Unlock()
	s.former, s.marksRead = marks, true
	if tags := s.tags.Load(); tags != nil { // of Adopt
		for _, t := range *tags {
			t.mu.Lock()
			s.returnLocked(t)
			t.mu.Unlock()
		}
	}
	return nil
}

// applyLocked makes the map what a complete pass has shown; it is replaced only when it
// changes. What takes tags away:
//
//  1. A tag is gone when two whole passes of Run, which are a Config.Refresh apart, have
//     not shown it, or one has not after its row was deleted by ourselves: one
//     pass may meet a table that is being restored, or a replica that is behind.
//  2. A pass that shows none of the tags that there were takes none away, and
//     doesn't count: the table was emptied, or another one answered (ErrTagsGone).
//  3. Nothing else does: a fetch without a row has failed (ErrRowMissing). Until
//     a tag is gone it is served from memory.
//  4. A pass over changed rows alone tells of what it has shown, and of no other row.
//     The next one is whole after wholeEvery, and at once after a pass that failed, a row
//     that is missing, and a max_id that went backwards.
func (s *Service) applyLocked(p pass) {
	var tags map[string]*Tag
	if known := s.tags.Load(); known != nil {
		tags = *known
	}
	s.welcomeLocked(p.added)
	var missing, gone []*Tag
	if p.view.Whole && p.known < len(tags) {
		for _, t := range tags {
			switch {
			case t.seen == s.pass.Load():
			case slices.Contains(p.deleted, t.name):
				gone = append(gone, t)
			default:
				missing = append(missing, t)
			}
		}
	}
	// What Adopt has brought may be all gone by the first pass, and others be there.
	allGone := len(missing) > 0 && p.known == 0 && (s.Loaded() || len(p.added) == 0)
	switch {
	case !p.view.Whole:
	case allGone:
		s.allGone.Store(int64(len(missing)))
	default:
		s.allGone.Store(0)
	}
	late := 0 // of missing
	if p.counts && p.view.Whole && !allGone {
		for _, t := range missing {
			if t.seen < s.complete {
				gone, late = append(gone, t), late+1
			}
		}
		s.complete = s.pass.Load()
	}
	if len(missing) > late {
		s.doubt.Store(true)
	}
	if tags != nil && len(p.added) == 0 && len(gone) == 0 {
		return
	}
	if tags == nil {
		s.tags.Store(&p.added)
		return
	}
	next := make(map[string]*Tag, len(tags)+len(p.added))
	maps.Copy(next, tags)
	for _, t := range gone {
		delete(next, t.name)
	}
	maps.Copy(next, p.added)
	s.tags.Store(&next)
	for _, t := range gone {
		s.buryLocked(t)
	}
}

// welcomeLocked makes tags of added rows that are to be in the map.
func (s *Service) welcomeLocked(added map[string]*Tag) {
	for name, t := range added {
		t.mu.Lock() // a tag that returns is in the list of those in use already
		s.returnLocked(t)
		t.noteBehindLocked(t.observed)
		t.mu.Unlock()
		if s.Loaded() {
			s.events.add(Event{Kind: KindTagAdded, Tag: name, High: t.observed})
		}
	}
}
