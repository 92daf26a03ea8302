package segment

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// lookupNames is how many names one look-up has at most.
	lookupNames = 256
	// absentFor is how long a name that has no row isn't looked up again, and absentMost how many such names
	// are remembered.
	absentFor, absentMost = time.Second, 65_536
	// lookupsMost bounds the look-ups that wait.
	lookupsMost = 64
	// lookEvery is how often the table is asked for tags in memory, and lookAgain how soon after a look that failed.
	lookEvery, lookAgain = 10 * time.Second, time.Second
)

// tagMap is the tags in memory. Reading it takes no lock, and allocates nothing; Service.mu protects changes.
type tagMap struct {
	seed   maphash.Seed
	shards [256]atomic.Pointer[map[string]*Tag] // never changed once stored
	count  atomic.Int64
}

func (m *tagMap) get(key []byte) *Tag {
	if tags := m.shards[maphash.Bytes(m.seed, key)%uint64(len(m.shards))].Load(); tags != nil {
		return (*tags)[string(key)]
	}
	return nil
}

// put stores t under name, or nothing where t is nil, in a copy of the map that has name.
func (m *tagMap) put(name string, t *Tag) {
	shard := &m.shards[maphash.String(m.seed, name)%uint64(len(m.shards))]
	next := make(map[string]*Tag)
	if tags := shard.Load(); tags != nil {
		maps.Copy(next, *tags)
	}
	before := len(next)
	if delete(next, name); t != nil {
		next[name] = t
	}
	m.count.Add(int64(len(next) - before))
	shard.Store(&next)
}

// all returns the tags, in no particular order.
func (m *tagMap) all() []*Tag {
	all := make([]*Tag, 0, m.count.Load())
	for i := range m.shards {
		if tags := m.shards[i].Load(); tags != nil {
			all = slices.AppendSeq(all, maps.Values(*tags))
		}
	}
	return all
}

// lookup is one query for names that requests wait for.
type lookup struct {
	names map[string]bool
	done  chan struct{} // closed when it has ended
	err   error         // why it showed nothing; set before done is closed
}

// lookups finds the rows of tags that are asked for and not in memory:
//
//  1. All names that wait are looked up together, lookupNames at most, first come, first served, one look-up at a
//     time. No name has the table scanned.
//  2. A name without a row is unknown for absentFor, and so a tag that was just made by SQL is served a moment later.
//  3. A look-up that failed makes no name unknown.
//
// Service.mu protects it.
type lookups struct {
	waiting []*lookup                // the first is under way
	absent  map[string]time.Duration // when the look-up that didn't find it began
	swept   time.Duration            // when old ones were last removed
}

// Lookup returns the tag that key names. It returns ErrUnknownTag if that isn't in memory. It doesn't
// keep key, and allocates nothing.
func (s *Service) Lookup(key []byte) (*Tag, error) {
	if t := s.tags.get(key); t != nil {
		return t, nil
	}
	return nil, ErrUnknownTag
}

// Find returns the tag that key names. One that isn't in memory is looked up in the table, for which the request
// waits, Config.Wait at most. It doesn't keep key. It returns ErrUnknownTag if there is no such row,
// ErrUnavailable if that isn't known now, or ctx's error.
func (s *Service) Find(ctx context.Context, key []byte) (*Tag, error) {
	var w waiter
	defer w.stop()
	return s.find(ctx, key, &w)
}

func (s *Service) find(ctx context.Context, key []byte, w *waiter) (*Tag, error) {
	t := s.tags.get(key)
	for t == nil {
		name := string(key)
		if CheckTag(name) != nil {
			return nil, ErrUnknownTag
		}
		w.start(s)
		if err := s.lookFor(ctx, name, w); err != nil {
			return nil, err
		}
		t = s.tags.get(key) // nil: it was deleted just now
	}
	return t, nil
}

// lookFor has name looked up, and returns nil once its tag is in memory.
func (s *Service) lookFor(ctx context.Context, name string, w *waiter) error {
	s.mu.Lock()
	l, err := s.wantLocked(name)
	s.mu.Unlock()
	if errors.Is(err, ErrUnknownTag) {
		return err
	}
	if err == nil {
		w.wait(ctx, s, l.done)
		select {
		case <-l.done:
			err = l.err
		default:
			if err = ctx.Err(); err != nil {
				return fmt.Errorf("looking for tag %q: %w", name, err)
			}
			if err = errStopped; w.over {
				err = fmt.Errorf("nothing within %v", s.cfg.Wait)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("%w: looking for tag %q: %w", ErrUnavailable, name, err)
	}
	if !l.names[name] {
		return ErrUnknownTag
	}
	return nil
}

// wantLocked has name looked up. It returns ErrUnknownTag if it was looked up a moment ago, and had
// no row.
func (s *Service) wantLocked(name string) (*lookup, error) {
	l := &s.lookups
	if at, absent := l.absent[name]; absent && s.clock.Mono()-at < absentFor {
		return nil, ErrUnknownTag
	}
	for _, one := range l.waiting {
		if one.names[name] {
			return one, nil
		}
	}
	n := len(l.waiting)
	switch {
	case !s.queue.open:
		return nil, errStopped
	case s.store == "":
		return nil, firstOf(s.storeErr, errNoStore)
	case s.outage.err != nil && (n > 0 || !s.outage.lookDue):
		return nil, s.outage.err
	case n >= lookupsMost:
		return nil, errors.New("too many names are being looked up")
	}
	if n < 2 || len(l.waiting[n-1].names) >= lookupNames {
		l.waiting = append(l.waiting, &lookup{names: make(map[string]bool), done: make(chan struct{})})
		n++
	}
	s.outage.lookDue = false
	l.waiting[n-1].names[name] = true
	if n == 1 {
		s.queue.running.Go(s.lookUp)
	}
	return l.waiting[n-1], nil
}

// lookUp looks names up until none waits.
func (s *Service) lookUp() {
	for more := true; more; {
		s.mu.Lock()
		one := s.lookups.waiting[0]
		names := slices.Collect(maps.Keys(one.names))
		s.mu.Unlock()
		s.cfg.Store.Warm() // what is found is fetched for next
		began := s.clock.Mono()
		rows, err := s.rowsOf(names)
		var marks map[string]Mark
		if err == nil && len(rows) > 0 {
			found := make([]string, len(rows))
			for i, r := range rows {
				found[i] = r.Tag
			}
			if marks, err = s.marksOf(found); err != nil {
				s.lookFailed(err, found)
			}
		}
		s.mu.Lock()
		waiting := &s.lookups.waiting
		ended := (*waiting)[:1]
		if err == nil {
			s.foundLocked(one, rows, marks, began)
		} else if s.outage.err != nil {
			ended = *waiting // all get its cause
		}
		*waiting = (*waiting)[len(ended):]
		more = len(*waiting) > 0
		s.mu.Unlock()
		for _, l := range ended {
			l.err = err
			close(l.done)
		}
		s.events.flush()
	}
}

// rowsOf asks the store for rows. What it says counts for outage.
func (s *Service) rowsOf(names []string) ([]Row, error) {
	rows, err := ask(s, ErrStore, s.cfg.FetchTimeout, func(ctx context.Context) ([]Row, error) { return s.cfg.Store.Find(ctx, names) })
	if err != nil {
		s.lookFailed(err, names)
		return nil, err
	}
	s.reached.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.foundAnswerLocked()
	return rows, nil
}

// lookFailed notes that a look-up has failed, unless Run has ended.
func (s *Service) lookFailed(err error, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fetchCtx.Err() == nil {
		s.failedLocked(err, false, names)
	}
}

// marksOf reads the marks of tags; ErrMark.
func (s *Service) marksOf(tags []string) (map[string]Mark, error) {
	marks, err := ask(s, ErrMark, s.cfg.FetchTimeout, func(ctx context.Context) ([]Mark, error) { return s.cfg.HighWater.Get(ctx, tags) })
	if err != nil {
		return nil, fmt.Errorf("%w: reading it: %w", ErrMark, err)
	}
	of := make(map[string]Mark, len(marks))
	for _, m := range marks {
		of[m.Tag] = m
	}
	return of, nil
}

// foundLocked takes in what a look-up has shown: the rows that there are, and their marks. Its names are then those that were found.
func (s *Service) foundLocked(one *lookup, rows []Row, marks map[string]Mark, began time.Duration) {
	names := one.names
	one.names = make(map[string]bool, len(rows))
	for _, r := range rows {
		one.names[r.Tag] = true
		if t := s.tags.get([]byte(r.Tag)); t != nil {
			t.seenLocked(r)
			continue
		}
		m := marks[r.Tag]
		t := &Tag{svc: s, name: r.Tag, policy: stepPolicy{table: r.Step}, floor: m.High, mark: m.High, markedOn: s.note.Server}
		t.taken, t.sampledAt = s.former[r.Tag], s.clock.Mono()
		t.sampled = t.taken
		delete(s.former, r.Tag)
		s.tags.put(r.Tag, t)
	}
	l, now := &s.lookups, s.clock.Mono()
	if now-l.swept >= absentFor {
		maps.DeleteFunc(l.absent, func(_ string, at time.Duration) bool { return now-at >= absentFor })
		l.swept = now
	}
	for name := range names {
		if !one.names[name] && len(l.absent) < absentMost {
			l.absent[name] = began
		}
	}
}

// seenLocked takes in a row that a look-up or a look has shown.
func (t *Tag) seenLocked(r Row) {
	t.setStepLocked(r.Step)
	if t.missing == nil {
		return
	}
	t.missing = nil
	if s := t.live.Load(); s != nil && t.next == nil && s.taken() > int64(s.refill) { //nolint:gosec // refill is below size
		t.askLocked() // what would have been fetched meanwhile
	}
}

// Created has a tag that was just made looked up when it is asked for next.
func (s *Service) Created(tag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lookups.absent, tag)
}

// Deleted drops a tag that was deleted by ourselves.
func (s *Service) Deleted(tag string) {
	s.mu.Lock()
	if t := s.tags.get([]byte(tag)); t != nil {
		s.dropLocked(t)
	}
	s.mu.Unlock()
	s.events.flush()
}

// dropLocked ends a tag that was deleted.
func (s *Service) dropLocked(t *Tag) {
	s.tags.put(t.name, nil)
	t.endLocked()
	s.former[t.name] = t.taken
	s.events.add(Event{Kind: KindTagRemoved, Tag: t.name, High: t.floor})
}

// missingLocked notes that the table shows no row of t, and that nothing tells that it was deleted: a table that was
// swapped, restored or emptied by mistake. What is in memory is served to its end. Then requests have the name looked up.
func (t *Tag) missingLocked(why error) {
	t.svc.queue.remove(t)
	t.place = place{}
	t.missing, t.svc.troubled[t] = fmt.Errorf("%w: of tag %q", why, t.name), struct{}{}
	t.wakeLocked()
}

// setStepLocked takes in the table's step, and notifies of a change.
func (t *Tag) setStepLocked(step int64) {
	if was := t.policy.table; step != was {
		t.svc.events.add(Event{Kind: KindTagChanged, Tag: t.name, High: t.floor, OldStep: was, NewStep: step})
		t.policy.table = step
	}
}

// keepLooked looks at tags in memory again and again until ctx is done. It is the ping that tells that the
// store is away, and finds rows that are gone and steps that changed.
func (s *Service) keepLooked(ctx context.Context) {
	for after := ""; ; {
		wait := lookEvery
		if s.look(&after) != nil {
			if wait = lookAgain; !s.reached.Load() { // a start waits for it
				wait = probeEvery
			}
		}
		s.events.flush()
		if s.clock.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// look asks for the rows of up to lookupNames tags, those after a name in turn.
func (s *Service) look(after *string) error {
	if err := s.useStore(""); err != nil {
		return err
	}
	names := make([]string, 0, lookupNames)
	page, more := s.Page(*after, "", lookupNames-1)
	for _, t := range page {
		names = append(names, t.name)
	}
	if *after = ""; more > 0 {
		*after = names[len(names)-1]
	}
	rows, err := s.rowsOf(append(names, "")) // no row has that name: with no tag in memory it is the ping
	if err != nil {
		return err
	}
	seen := make(map[string]Row, len(rows))
	for _, r := range rows {
		seen[r.Tag] = r
	}
	lack := slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, there := seen[name]; return there })
	var deleted map[string]bool
	if len(lack) > 0 {
		s.mu.Lock()
		at, _ := s.guardLocked()
		s.mu.Unlock()
		deleted, _ = s.deletedOf(at, lack) // where that isn't known the tag goes on
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lacking := 0
	for _, t := range page {
		r, there := seen[t.name]
		switch {
		case t.gone:
		case there:
			t.seenLocked(r)
		case deleted[t.name]:
			s.dropLocked(t)
		default:
			if lacking++; t.missing == nil && t.state != stateFetching { // else its fetch tells
				t.missingLocked(ErrRowMissing)
			}
		}
	}
	s.lacking = lacking*2 > len(names)
	return nil
}
