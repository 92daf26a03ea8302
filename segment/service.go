package segment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/clock"
)

// ErrUnavailable is returned when a tag has no ID to give now: the tags were
// never read, no range came within Config.Wait, the table's row is refused
// (ErrRegressed or ErrBadRow is in the chain then), or the service is not
// running. Trying again later is in order. The chain may hold errors of the
// database's own contexts: test for ErrUnavailable before those of context.
var ErrUnavailable = errors.New("no IDs available")

// ErrLate is in a Trouble's Err where the Store or the Guard did not answer in time. What it
// said in the end is in the text alone, cut from the chain.
var ErrLate = errors.New("no answer")

// ErrRowMissing is in the chain of a failed fetch that met no row of the tag, while the
// passes over the table have not agreed yet that it is gone.
var ErrRowMissing = errors.New("the table shows no row of the tag")

var (
	errStopped = errors.New("the service is not running")
	errRunning = errors.New("Run was called before; make a new Service")
)

// Defaults of Config.
const (
	// DefaultWait is many times what a fetch takes, and less than clients' time-outs.
	DefaultWait = 500 * time.Millisecond
	// DefaultRefresh is the Java Leaf's.
	DefaultRefresh      = 60 * time.Second
	DefaultFetchTimeout = 2 * time.Second
	DefaultMaxStep      = 1_000_000
)

// MaxReserve is the largest Config.Reserve.
const MaxReserve = 100

// Config is what a Service is made of. Zero values of all but Store and HighWater
// stand for the defaults.
type Config struct {
	Store     Store
	HighWater HighWater
	Clock     clock.Clock // clock.System() by default

	// Wait is how long a request waits for ranges, all of them together.
	Wait time.Duration
	// Refresh is how often the tags are read again.
	Refresh time.Duration
	// FetchTimeout bounds each call to HighWater, each answer of Store (Answered) and the
	// time a pass over the table may go without a row.
	FetchTimeout time.Duration
	// MaxStep is the largest dynamic step. A table step above it is kept.
	MaxStep int64
	// Reserve is how many more steps each range has, 0 to MaxReserve: so much longer the
	// ranges in memory last.
	Reserve int64
	// Held lets fetches wait until Release, and requests for them, for what Adopt may
	// bring.
	Held bool
	// Guard has the high marks of all daemons on the table; nil: there is none, and the
	// table is believed where it isn't below what this daemon has seen.
	Guard Guard
	// Node names this daemon in the high marks that it writes, for people.
	Node string
	// OwnTable: no other daemon has this table, which is behind the ranges of the others.
	OwnTable bool
	// GuardRequired: without the guard nothing is fetched.
	GuardRequired bool
	// RefuseRegressed: a table that went backwards is refused, not moved forward, with
	// the guard as well.
	RefuseRegressed bool
	// Notify is called with each Event, in order, one at a time, with
	// no lock held, and never while an ID is waiting for it. It may be nil.
	Notify func(Event)
	// Fetched is called after each attempt to get a range that the end of Run
	// didn't break off: with the tag, how long the store and the mark took
	// together, and the error, which is nil when the range is ours. It is called with no lock held, from
	// several goroutines at once, and may be nil.
	Fetched func(tag string, took time.Duration, err error)
}

// Service hands out IDs for every tag of a table. It is safe for concurrent use.
type Service struct {
	cfg    Config      // immutable
	clock  clock.Clock // immutable
	queue  *queue
	events *events

	ran      atomic.Bool
	ended    chan struct{}   // closed at the end of Run, once the queue is
	fetchCtx context.Context //nolint:containedctx // the life of Run; set before the queue opens

	// tags is never changed once stored: readers index it without a lock. It may have
	// those of Adopt before the tags were read.
	tags    atomic.Pointer[map[string]*Tag]
	loaded  atomic.Bool // the tags were ever read
	guarded *guarded    // immutable; nil: no guard
	tagsMu  sync.Mutex
	// former has what outlives a tag that is gone, while it stays gone.
	// tagsMu protects.
	former  map[string]former
	loadErr error // tagsMu protects; of the last pass, nil when it was complete

	loading   chan struct{} // holds one token while a pass is under way
	marksRead bool          // loading protects
	pass      atomic.Uint32 // changed with loading held; counts the passes
	// complete is the last of Run's passes that has shown the table.
	// loading protects.
	complete uint32
	allGone  atomic.Int64  // how many tags there were, while the last pass has shown none of them
	view     View          // loading protects; of the last pass, zero: the next has to be whole
	wholeAt  time.Duration // loading protects; when a whole pass ended last
	doubt    atomic.Bool   // the next pass has to be whole
	inUse    inUse
	looks    looks
	troubled troubled
}

// former is what is kept of a tag once its row is gone.
type former struct {
	high     int64     // the highest value seen; 0: its row was never seen
	marked   int64     // the local mark
	counters *counters // nil if it was never used
}

// New returns a service that serves nothing until Run, or Reload, has read the
// tags, and fetches nothing until Run runs. An error names the field at fault.
func New(cfg Config) (*Service, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Service{
		cfg:     cfg,
		clock:   cfg.Clock,
		events:  &events{notify: cfg.Notify},
		former:  make(map[string]former),
		loading: make(chan struct{}, 1),
		ended:   make(chan struct{}),
	}
	s.queue = &queue{work: s.attempt, held: cfg.Held}
	if cfg.Guard != nil {
		s.guarded = newGuarded(s)
	}
	return s, nil
}

func (c *Config) complete() error {
	if c.Store == nil || c.HighWater == nil {
		return errors.New("Config needs a Store and HighWater")
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	for _, f := range []struct {
		name  string
		value *time.Duration
		deflt time.Duration
	}{
		{"Wait", &c.Wait, DefaultWait},
		{"Refresh", &c.Refresh, DefaultRefresh},
		{"FetchTimeout", &c.FetchTimeout, DefaultFetchTimeout},
	} {
		if *f.value == 0 {
			*f.value = f.deflt
		}
		if *f.value < 0 {
			return fmt.Errorf("segment: Config.%s is %v, must be positive", f.name, *f.value)
		}
	}
	if c.MaxStep == 0 {
		c.MaxStep = DefaultMaxStep
	}
	if c.MaxStep < 0 {
		return fmt.Errorf("Config.MaxStep is %d, must be positive", c.MaxStep)
	}
	if c.Reserve < 0 || c.Reserve > MaxReserve {
		return fmt.Errorf("Config.Reserve is %d, must be 0 to %d", c.Reserve, MaxReserve)
	}
	return nil
}

// Run reads the tags, now and every Config.Refresh, and fetches ranges, until
// ctx is done. It returns nil once every goroutine of the service has ended:
// fetches in flight are cancelled with ctx. A service runs once. After that, or
// before, tags still hand out what they hold, and wait for nothing.
func (s *Service) Run(ctx context.Context) error {
	if !s.ran.CompareAndSwap(false, true) {
		return errRunning
	}
	var beside sync.WaitGroup
	beside.Go(func() { s.keepSampled(ctx) })
	s.fetchCtx = ctx
	s.queue.start()
	if s.guarded != nil {
		beside.Go(func() { s.keepGuarded(ctx) })
		s.guarded.awaitStart()
	}

	s.keepLoaded(ctx)

	// The queue first: a request that is woken then sees that there is nothing to
	// wait for any more.
	s.queue.close()
	close(s.ended)
	s.queue.running.Wait()
	beside.Wait()
	return nil
}

// Lookup returns the tag that key names, ErrUnknownTag when the table has no
// such row, or ErrUnavailable while that isn't known: the table was never read. It doesn't keep
// key, and allocates nothing when it succeeds.
func (s *Service) Lookup(key []byte) (*Tag, error) {
	if t := s.tag(key); t != nil {
		return t, nil
	}
	if err := s.unread(); err != nil {
		return nil, err
	}
	if t := s.tag(key); t != nil { // the first pass ended in between
		return t, nil
	}
	return nil, ErrUnknownTag
}

// tag returns the tag that key names; nil where none is known.
func (s *Service) tag(key []byte) *Tag {
	tags := s.tags.Load()
	if tags == nil {
		return nil
	}
	return (*tags)[string(key)]
}

// Loaded reports whether the tags were ever read.
func (s *Service) Loaded() bool { return s.loaded.Load() }

// Ready returns nil when there are tags to serve: they were ever read, or Adopt has
// brought some; and ErrUnavailable with the cause before.
func (s *Service) Ready() error {
	if s.Len() > 0 {
		return nil
	}
	return s.unread()
}

// unread returns ErrUnavailable while the tags were never read.
func (s *Service) unread() error {
	if s.Loaded() {
		return nil
	}
	s.tagsMu.Lock()
	defer s.tagsMu.Unlock()
	switch {
	case s.Loaded():
		return nil
	case s.loadErr != nil:
		return fmt.Errorf("%w: the tags could not be read yet: %w", ErrUnavailable, s.loadErr)
	default:
		return fmt.Errorf("%w: the tags are being read", ErrUnavailable)
	}
}

// returnLocked gives a new Tag what outlived its row, where it was gone.
func (s *Service) returnLocked(t *Tag) {
	f, was := s.former[t.name]
	if !was {
		return
	}
	delete(s.former, t.name)
	t.base, t.marked, t.again = f.high, f.marked, f.high > 0 // never-below-seen outlives the row
	if t.again && t.marked > 0 && s.guarded != nil {
		s.guarded.raiseLater(t.name, t.marked)
	}
	if f.counters != nil {
		t.counters = f.counters
		s.inUse.add(t)
	}
}

// buryLocked ends a tag that is no longer in the map.
func (s *Service) buryLocked(t *Tag) {
	f := t.remove()
	s.former[t.name] = f
	s.events.add(Event{Kind: KindTagRemoved, Tag: t.name, High: f.high})
}
