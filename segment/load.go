package segment

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Retries of a pass that failed: quick at first, so that a database that comes
// up with the daemon costs a moment.
const (
	loadRetryFirst = 100 * time.Millisecond
	loadRetryMax   = 10 * time.Second
)

// keepLoaded reads the tags again and again until ctx is done.
func (s *Service) keepLoaded(ctx context.Context) {
	retry := backoff.ExponentialBackOff{
		InitialInterval:     loadRetryFirst,
		Multiplier:          2,
		RandomizationFactor: retryJitter,
		MaxInterval:         loadRetryMax,
	}
	defer s.reading.Pause()
	for {
		s.reading.Pause() // the store may take any time
		wait := time.Duration(s.refresh.Load())
		if err := s.Reload(ctx); err != nil {
			wait = retry.NextBackOff() // Reload has made err an event
		} else {
			retry.Reset()
		}
		s.reading.Expect(s.clock, wait+turnGrace)
		if s.clock.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// Reload reads the tags now, as after a change of the table by ourselves. Only
// a complete pass changes anything but marks: rows that a failed pass did not
// get to are not taken for gone. It returns the store's error, or ctx's.
func (s *Service) Reload(ctx context.Context) error {
	select {
	case s.loading <- struct{}{}:
		defer func() { <-s.loading }()
	case <-ctx.Done():
		return fmt.Errorf("segment: reading the tags: %w", ctx.Err())
	}
	defer s.events.flush()
	added, known, err := s.readTags(ctx)
	if ctx.Err() != nil && err != nil {
		return fmt.Errorf("segment: reading the tags: %w", err) // the caller's doing, no change of state
	}
	s.tagsMu.Lock()
	defer s.tagsMu.Unlock()
	if err != nil {
		err = fmt.Errorf("segment: reading the tags: %w", err)
		if s.loadErr == nil {
			s.events.add(Event{Kind: KindLoadFailed, Err: err})
		}
		s.loadErr = err
		return err
	}
	first := !s.Loaded()
	s.applyLocked(added, known, first)
	s.loaded.Store(true)
	count := int64(len(*s.tags.Load()))
	switch {
	case first:
		s.events.add(Event{Kind: KindLoaded, Count: count})
	case s.loadErr != nil:
		s.events.add(Event{Kind: KindLoadRecovered, Count: count})
	}
	s.loadErr = nil
	return nil
}

// readTags makes one pass over the table. It returns the tags that are new,
// and how many of the known ones it saw. Known tags cost no allocation.
func (s *Service) readTags(ctx context.Context) (added map[string]*Tag, known int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dog := &watchdog{svc: s, cancel: cancel}
	dog.start()
	defer dog.stop()

	var tags map[string]*Tag
	if p := s.tags.Load(); p != nil {
		tags = *p
	}
	s.pass++
	added = make(map[string]*Tag)
	err = s.cfg.Store.Each(ctx, func(name []byte, maxID, step int64) error {
		dog.rows.Add(1)
		if t := tags[string(name)]; t != nil {
			t.seen = s.pass
			t.observe(maxID, step)
			known++
			return nil
		}
		if t := added[string(name)]; t != nil {
			t.observed = max(t.observed, maxID)
			return nil
		}
		t := &Tag{svc: s, name: string(name), observed: max(maxID, 0), step: step, seen: s.pass}
		added[t.name] = t
		return nil
	})
	if err != nil && dog.fired.Load() {
		// Cut from the chain: it was cancelled by us, not by the caller.
		err = fmt.Errorf("no row for %v: %v", s.cfg.FetchTimeout, err) //nolint:errorlint // see above
	}
	return added, known, err
}

// applyLocked makes the map what a complete pass has seen. The map is replaced
// only when it changes. Since the pass began, drop may have taken tags out.
func (s *Service) applyLocked(added map[string]*Tag, known int, first bool) {
	var tags map[string]*Tag
	if p := s.tags.Load(); p != nil {
		tags = *p
	}
	for name, t := range added {
		s.returnLocked(t)
		if !first {
			s.events.add(Event{Kind: KindTagAdded, Tag: name, High: t.observed})
		}
	}
	if len(tags) == 0 {
		s.tags.Store(&added)
		return
	}
	if len(added) == 0 && known == len(tags) {
		return
	}
	var missing []*Tag
	for _, t := range tags {
		if t.seen != s.pass {
			missing = append(missing, t)
		}
	}
	if len(added) == 0 && len(missing) == 0 {
		return
	}
	tags = maps.Clone(tags)
	for _, t := range missing {
		delete(tags, t.name)
	}
	maps.Copy(tags, added)
	s.tags.Store(&tags)
	for _, t := range missing {
		s.buryLocked(t)
	}
}

// watchdog cancels a pass that gets no row for Config.FetchTimeout, however
// long the whole pass takes. Without Run there are no timers, and the caller's
// context alone bounds the pass.
type watchdog struct {
	svc    *Service
	cancel context.CancelFunc
	rows   atomic.Int64
	fired  atomic.Bool

	mu    sync.Mutex
	seen  int64  // mu protects
	timer *timer // mu protects
	done  bool   // mu protects
}

func (w *watchdog) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.setLocked()
}

func (w *watchdog) setLocked() {
	w.timer = w.svc.timers.add(w.svc.clock.Mono()+w.svc.cfg.FetchTimeout, w.look)
}

func (w *watchdog) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return
	}
	if rows := w.rows.Load(); rows != w.seen {
		w.seen = rows
		w.setLocked()
		return
	}
	w.fired.Store(true)
	w.cancel()
}

func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	if w.timer != nil {
		w.svc.timers.remove(w.timer)
	}
}
