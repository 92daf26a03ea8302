package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/clock"
)

// ErrUnavailable is returned when a tag has no ID to give now: the store was
// never reached, no range came within Config.Wait, the table's row is refused
// (ErrBadRow is in the chain then), or the service is not
// running. Trying again later is in order. The chain may hold errors of the
// database's own contexts: test for ErrUnavailable before those of context.
var ErrUnavailable = errors.New("no IDs available")

// ErrLate is in a Trouble's Err where the Store or the Guard did not answer in time. What it
// said in the end is in the text alone, cut from the chain.
var ErrLate = errors.New("no answer")

// ErrRowMissing is in the chain of the error of a tag without a row in the table, where nothing shows that it was
// deleted.
var ErrRowMissing = errors.New("the table shows no row")

var (
	errStopped = errors.New("the service is not running")
	errRunning = errors.New("Run was called before; make a new Service")
	errNoStore = errors.New("the guard was not reached yet, and nothing here tells which cluster's marks count")
)

// Defaults of Config.
const (
	// DefaultWait is less than the second after which clients give up.
	DefaultWait         = 900 * time.Millisecond
	DefaultFetchTimeout = 2 * time.Second
)

// Config is what a Service is made of. Zero values of all but Store and HighWater
// stand for the defaults.
type Config struct {
	Store     Store
	HighWater HighWater
	// Marks names the store that the marks are of: the cluster's UUID where there is a Guard. With one it may be empty: the
	// first root that the Guard reads tells, and until then nothing is served.
	Marks string
	Clock clock.Clock // clock.System() by default

	// Wait is how long a request waits, for its tag to be found and for ranges, all together.
	Wait time.Duration
	// FetchTimeout bounds each call to HighWater, Store and Guard.
	FetchTimeout time.Duration
	// Guard has the high marks of all daemons on the table; nil: there is none.
	Guard Guard
	// Node names this daemon in the high marks that it writes, for people, and Life tells its lives apart.
	Node, Life string
	// GuardRequired: without the guard nothing is fetched.
	GuardRequired bool
	// Notify is called with each Event, in order, one at a time, with
	// no lock held, and never while an ID is waiting for it. It may be nil.
	Notify func(Event)
	// Fetched is called after each attempt to get a range that the end of Run
	// didn't break off: with the tag, how long it took, and the error, which is nil when the range is ours. It is
	// called with no lock held, from several goroutines at once, and may be nil.
	Fetched func(tag string, took time.Duration, err error)
}

// Service hands out IDs for every tag of a table. It is safe for concurrent use.
type Service struct {
	cfg    Config      // immutable
	clock  clock.Clock // immutable
	events *events
	guard  *guarded // immutable; nil: there is none

	ran      atomic.Bool
	ended    chan struct{}   // closed at the end of Run, once the queue is
	fetchCtx context.Context //nolint:containedctx // the life of Run; set before the queue opens
	reached  atomic.Bool     // the store has ever answered
	tags     tagMap

	noteMu sync.Mutex // held while the note is read or written: the last one that is written is the newest

	// mu protects the rest, and what a Tag says that it protects. It is never held over I/O.
	mu       sync.Mutex
	queue    queue
	outage   outage
	lookups  lookups
	unmarked []Mark // of a fetch that couldn't write them last
	store    string // that the marks in use are of; "": none yet
	storeErr error  // why there is none yet
	note     Note
	former   map[string]int64  // IDs taken of tags that were deleted, so that what was issued never falls
	troubled map[*Tag]struct{} // tags that got into trouble, until they are asked and have none
	lacking  bool              // most tags of the last look have no row
}

// New returns a service that serves nothing until Run runs. It returns an error that names the
// field of cfg at fault.
func New(cfg Config) (*Service, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, clock: cfg.Clock, events: &events{notify: cfg.Notify}, ended: make(chan struct{}),
		tags: tagMap{seed: maphash.MakeSeed()}, former: make(map[string]int64), troubled: make(map[*Tag]struct{}),
		lookups: lookups{absent: make(map[string]time.Duration)},
	}
	if cfg.Guard != nil {
		s.guard = &guarded{svc: s, guard: cfg.Guard, by: cfg.Node + "/" + cfg.Life, err: errors.New("it was not reached yet"), wake: make(chan struct{}, 1)}
	}
	return s, nil
}

func (c *Config) complete() error {
	switch {
	case c.Store == nil || c.HighWater == nil:
		return errors.New("segment: Config needs a Store and HighWater")
	case c.Marks == "" && c.Guard == nil:
		return errors.New("segment: Config needs Marks or a Guard")
	case c.Wait < 0:
		return fmt.Errorf("segment: Config.Wait is %v, must be positive", c.Wait)
	case c.FetchTimeout < 0:
		return fmt.Errorf("segment: Config.FetchTimeout is %v, must be positive", c.FetchTimeout)
	}
	c.Wait, c.FetchTimeout = cmp.Or(c.Wait, DefaultWait), cmp.Or(c.FetchTimeout, DefaultFetchTimeout)
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	return nil
}

// Run looks tags up and fetches ranges, until ctx is done. It returns nil once every goroutine of the service has ended:
// fetches in flight are cancelled with ctx. A service runs once. After that tags still hand out what they hold, and wait for
// nothing. Nothing is kept over a stop: what is in memory is a gap.
func (s *Service) Run(ctx context.Context) error {
	if !s.ran.CompareAndSwap(false, true) {
		return errRunning
	}
	s.fetchCtx = ctx
	s.mu.Lock()
	s.queue.open = true
	if g := s.guard; g != nil {
		g.since = s.clock.Mono() + guardStart - g.patience()
	}
	s.mu.Unlock()
	_ = s.useStore("") // Troubles tells why it can't be
	var beside sync.WaitGroup
	if s.guard != nil {
		beside.Go(func() { s.guard.keep(ctx) })
	}
	s.keepLooked(ctx)

	// The queue first: a request that is woken then sees that there is nothing to
	// wait for any more.
	s.mu.Lock()
	s.queue.closeLocked()
	s.mu.Unlock()
	close(s.ended)
	s.queue.running.Wait()
	beside.Wait()
	return nil
}

// useStore has the marks of our store used, and returns why that can't be done yet. cluster is the guard's, "" where it
// isn't asked: ErrGuardAway where it is another one than ours.
//
//	marks-of-their-store  Marks on this disk carry the store that they are of: with a Guard the cluster. Those of another one
//	    count for nothing, and are told.
func (s *Service) useStore(cluster string) (err error) {
	s.noteMu.Lock()
	defer s.noteMu.Unlock()
	s.mu.Lock()
	used := s.store
	s.mu.Unlock()
	name := cmp.Or(used, s.cfg.Marks, cluster)
	var others int
	var note Note
	switch {
	case cluster != "" && name != cluster:
		return fmt.Errorf("%w: %w: it has %s, ours is %s", ErrGuardAway, errOtherCluster, cluster, name)
	case used != "":
		return nil
	case name == "":
		err = errNoStore
	default:
		err = s.bounded(ErrMark, func(ctx context.Context) (err error) {
			if others, err = s.cfg.HighWater.Use(ctx, name); err == nil {
				note, err = s.cfg.HighWater.Note(ctx)
			}
			return err
		})
		if err != nil {
			err = fmt.Errorf("%w: reading the marks: %w", ErrMark, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.storeErr = err; err != nil {
		return err
	}
	s.store, s.note = name, note
	if others > 0 {
		s.events.add(Event{Kind: KindOtherMarks, Count: int64(others), Now: name})
	}
	return nil
}

// Ready returns ErrUnavailable with the cause until the store was reached.
func (s *Service) Ready() error {
	if s.reached.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range []error{s.storeErr, s.outage.last} {
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	return fmt.Errorf("%w: the store was not reached yet", ErrUnavailable)
}

// Next returns the next ID of the tag that key names, and fails as Find and Tag.Next do. It doesn't keep key.
func (s *Service) Next(ctx context.Context, key []byte) (int64, error) {
	var w waiter
	defer w.stop()
	t, err := s.find(ctx, key, &w)
	if err != nil {
		return 0, err
	}
	return t.take(ctx, &w)
}

// NextRanges appends n IDs of the tag that key names to dst, as the ranges that they are, each beyond the one before, and as
// many as ranges of the table they come from. Config.Wait bounds the whole call. Errors are those of Next; with an
// error it returns dst as it was, and IDs that were taken for it by then are lost: none, where only the current
// range was there, and it has not enough.
func (s *Service) NextRanges(ctx context.Context, key []byte, n int, dst []IDRange) ([]IDRange, error) {
	var w waiter
	defer w.stop()
	t, err := s.find(ctx, key, &w)
	if err != nil {
		return dst, err
	}
	return t.nextRanges(ctx, &w, n, dst)
}

func (s *Service) nowMillis() int64 {
	wallNS, _ := s.clock.Wall()
	return int64(clock.Reading{WallNS: wallNS}.Wall())
}
