package client

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// batch is the IDs of one response, which callers take from the front.
type batch struct {
	runs []run
	size int64
	mask int64         // a call that takes an ID in a place with none of these bits has the fetcher look how many are wanted
	at   time.Duration // client's monotonic time before the request was sent
	next atomic.Int64  // first that no call has; may lie beyond the end
}

// runOf returns the index of the run that has the i-th ID.
func (b *batch) runOf(i int64) int {
	return sort.Search(len(b.runs), func(k int) bool { return b.runs[k].begin > i }) - 1
}

// id returns the i-th ID.
func (b *batch) id(i int64) int64 {
	r := b.runs[b.runOf(i)]
	return r.first + i - r.begin
}

// take fills dst from the batch, and returns how many it took; look is true when the
// fetcher is to look how many are wanted.
func (b *batch) take(dst []int64) (n int, look bool) {
	k := int64(len(dst))
	end := b.next.Add(k)
	first := end - k
	if first >= b.size {
		return 0, false
	}
	n = int(min(k, b.size-first))
	for i, k := first, b.runOf(first); i < first+int64(n); i++ {
		if k+1 < len(b.runs) && b.runs[k+1].begin <= i {
			k++
		}
		dst[i-first] = b.runs[k].first + i - b.runs[k].begin
	}
	return n, first&b.mask == 0 || first|b.mask < end-1
}

// left returns how many IDs no call has.
func (b *batch) left() int { return int(max(0, b.size-b.next.Load())) }

// drop takes all that is left, for no call, and returns how many IDs those were.
func (b *batch) drop() int64 { return max(0, b.size-(b.next.Add(b.size)-b.size)) }

// Source gives the IDs of one key or tag. It is safe for concurrent use.
type Source struct {
	client  *Client
	path    string
	maxAge  time.Duration // not positive: any age
	borrows *borrower     // nil: IDs are fetched ahead alone
	wake    chan struct{} // one token: the fetcher looks how many IDs are wanted

	current atomic.Pointer[batch] // never nil; changed under mu
	lent    atomic.Int64          // IDs of slices

	mu      sync.Mutex
	started bool      // mu protects; the fetcher runs
	closed  bool      // mu protects
	queued  []*batch  // mu protects; follow on current
	waiters []*waiter // mu protects; in the order in which they came
	limit   int       // mu protects; largest batch that the daemons allow
	pace    pace      // mu protects
	lastErr error     // mu protects; of the last request; nil when it worked
	stats   Stats     // mu protects

	requests requests // of the fetcher
}

// waiter is a call that found no ID.
type waiter struct {
	dst         []int64 // what is to be filled yet
	traceparent string  // of the caller; empty: none
	done        chan error
}

// firstSize is the size of a source's first batch.
const firstSize = 64

func newSource(c *Client, path string, ahead, maxAge time.Duration) *Source {
	most := c.cfg.MaxAhead / 2
	s := &Source{client: c, path: path, maxAge: maxAge, wake: make(chan struct{}, 1), limit: most, pace: pace{ahead: ahead, most: most, begun: c.mono()}}
	s.current.Store(new(batch))
	s.requests.until = make(map[*daemon]time.Duration)
	s.requests.update(c.daemons)
	return s
}

// Next returns an ID. It waits for one as long as ctx lasts. It returns an *Error
// where the daemons refuse the request for good, ErrClosed, or the error of ctx with
// that of the last request in its chain.
func (s *Source) Next(ctx context.Context) (int64, error) {
	if s.borrows != nil {
		id, err := s.borrows.next(ctx, s)
		if err != nil {
			return 0, s.late(err)
		}
		if id >= 0 {
			s.lent.Add(1)
			return id, nil
		}
	}
	b := s.current.Load()
	if s.young(b) {
		i := b.next.Add(1) - 1
		if i < b.size {
			if i&b.mask == 0 {
				s.poke()
			}
			return b.id(i), nil
		}
	}
	return s.waitForOne(ctx)
}

// waitForOne is a function of its own because its array is on the heap.
func (s *Source) waitForOne(ctx context.Context) (int64, error) {
	var one [1]int64
	if err := s.wait(ctx, one[:]); err != nil {
		return 0, err
	}
	return one[0], nil
}

// NextN fills dst, or returns an error as Next does, for all of it: IDs that it had taken by then
// go to no caller.
func (s *Source) NextN(ctx context.Context, dst []int64) error {
	b := s.current.Load()
	if s.young(b) {
		n, look := b.take(dst)
		if look {
			s.poke()
		}
		dst = dst[n:]
	}
	if len(dst) == 0 {
		return nil
	}
	return s.wait(ctx, dst)
}

// young reports whether IDs of b may be handed out.
func (s *Source) young(b *batch) bool {
	return s.maxAge <= 0 || s.client.mono()-b.at <= s.maxAge
}

// poke wakes the fetcher, which looks how many IDs are wanted.
func (s *Source) poke() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// wait fills dst when the current batch hasn't got enough. Callers are served in the
// order in which they come here.
func (s *Source) wait(ctx context.Context, dst []int64) error {
	w, err := s.enqueue(dst, s.client.traceparent(ctx))
	if err != nil || w == nil {
		return err
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.waiters {
		if other == w {
			s.waiters = append(s.waiters[:i], s.waiters[i+1:]...)
			err := s.late(ctx.Err())
			if s.lastErr != nil {
				err = fmt.Errorf("%w (the last request failed: %w)", err, s.lastErr)
			}
			return err
		}
	}
	return <-w.done // it was served meanwhile
}

// late returns the error of a call with a context that is done.
func (s *Source) late(err error) error {
	return fmt.Errorf("client: no ID from %s in time: %w", s.path, err)
}

// enqueue fills dst from what is there, and returns a waiter where that isn't enough.
func (s *Source) enqueue(dst []int64, traceparent string) (*waiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if !s.started {
		s.started = s.client.goRun(s.run)
		if !s.started {
			return nil, ErrClosed
		}
	}
	w := &waiter{dst: dst, traceparent: traceparent, done: make(chan error, 1)}
	s.waiters = append(s.waiters, w)
	s.serveLocked()
	s.poke()
	select {
	case err := <-w.done:
		return nil, err
	default:
		return w, nil
	}
}

// serveLocked gives the waiters what is there, first come, first served.
func (s *Source) serveLocked() {
	for len(s.waiters) > 0 {
		b := s.current.Load()
		if !s.young(b) {
			s.stats.Dropped += b.drop()
		}
		w := s.waiters[0]
		n, _ := b.take(w.dst)
		w.dst = w.dst[n:]
		if len(w.dst) == 0 {
			s.waiters = s.waiters[1:]
			w.done <- nil
			continue
		}
		if len(s.queued) == 0 {
			return
		}
		s.current.Store(s.queued[0]) // the one before has nothing left, or is too old
		s.queued = s.queued[1:]
	}
}

// Stats is what a source has done, for metrics.
type Stats struct {
	Ahead    int           // IDs fetched and not handed out
	Waiting  int           // calls that wait for an ID
	Batch    int           // size of the next batch
	Fetched  int64         // IDs received
	Dropped  int64         // of them, too old to be handed out, or left at Close
	Requests int64         // answered with IDs
	Failures int64         // requests that failed
	Lent     int64         // IDs made of slices, which are none of those above
	Lease    time.Duration // for which IDs can be made of the client's slice from now on; 0: it has none
}

// Stats returns the source's counters.
func (s *Source) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Lent = s.lent.Load()
	if s.borrows != nil {
		st.Lease = s.borrows.lent.Load().left(s.client.mono())
	}
	st.Ahead, st.Waiting, st.Batch = s.aheadLocked(), len(s.waiters), s.batchLocked()
	return st
}

// close ends the source: the IDs fetched ahead are dropped, and the calls that wait fail.
func (s *Source) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, b := range append(s.queued, s.current.Load()) {
		s.stats.Dropped += b.drop()
	}
	s.queued = nil
	s.failLocked(ErrClosed)
}

// failLocked ends the calls that wait.
func (s *Source) failLocked(err error) {
	for _, w := range s.waiters {
		w.done <- err
	}
	s.waiters = nil
}

// errNone is returned when every daemon is left alone for now.
var errNone = errors.New("client: every daemon is left alone for now")
