package segment

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/leafd/leafd/clock"
)

// timer is a call to make at a moment of the monotonic clock.
type timer struct {
	at    time.Duration
	fire  func() // short: closes a channel, cancels a context, queues a tag
	index int    // in the heap; -1 when it is not there
}

// timers makes the calls of all timers from one goroutine, on an injected
// clock: retries of thousands of tags, and waiting requests, cost a heap entry
// each, not a goroutine.
type timers struct {
	clock clock.Clock // immutable

	mu     sync.Mutex
	heap   timerHeap          // mu protects
	until  time.Duration      // mu protects; the goroutine sleeps that long
	wake   context.CancelFunc // mu protects; ends that sleep
	closed bool               // mu protects
}

// add sets a timer, or returns nil when timers are no longer kept. fire is
// called with no lock held, from another goroutine.
func (ts *timers) add(at time.Duration, fire func()) *timer {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.closed {
		return nil
	}
	t := &timer{at: at, fire: fire}
	heap.Push(&ts.heap, t)
	// The goroutine is woken for an earlier timer only. Removing one doesn't
	// wake it, so that in steady work it wakes once per time-out, not per fetch.
	if ts.wake != nil && at < ts.until {
		ts.wake()
	}
	return t
}

// remove takes t back, if it hasn't fired.
func (ts *timers) remove(t *timer) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.index >= 0 {
		heap.Remove(&ts.heap, t.index)
	}
}

// run fires timers until ctx is done; then it fires all that are left, so that
// nobody waits for ever, and keeps no new ones.
func (ts *timers) run(ctx context.Context) {
	for ctx.Err() == nil {
		due, wait, sleepCtx, cancel := ts.collect(ctx)
		for _, t := range due {
			t.fire()
		}
		switch {
		case len(due) > 0:
		case wait == Forever:
			<-sleepCtx.Done()
		default:
			// An error means woken early or stopping: both are looked at next.
			_ = ts.clock.Sleep(sleepCtx, wait)
		}
		cancel()
	}
	ts.mu.Lock()
	ts.closed = true
	ts.wake = nil
	left := ts.heap
	ts.heap = nil
	for _, t := range left {
		t.index = -1
	}
	ts.mu.Unlock()
	for _, t := range left {
		t.fire()
	}
}

// collect takes the timers that are due; when there are none it says how long
// to sleep, on a context that add ends.
func (ts *timers) collect(ctx context.Context) ([]*timer, time.Duration, context.Context, context.CancelFunc) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	now := ts.clock.Mono()
	var due []*timer
	for len(ts.heap) > 0 && ts.heap[0].at <= now {
		t, _ := heap.Pop(&ts.heap).(*timer)
		due = append(due, t)
	}
	sleepCtx, cancel := context.WithCancel(ctx)
	ts.wake, ts.until = cancel, Forever
	if len(ts.heap) == 0 {
		return due, Forever, sleepCtx, cancel
	}
	ts.until = ts.heap[0].at
	return due, ts.until - now, sleepCtx, cancel
}

// timerHeap implements heap.Interface, the earliest timer first.
type timerHeap []*timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at < h[j].at }

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *timerHeap) Push(x any) {
	t, _ := x.(*timer)
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop implements heap.Interface.
func (h *timerHeap) Pop() any {
	old := *h
	last := len(old) - 1
	t := old[last]
	old[last] = nil
	*h = old[:last]
	t.index = -1
	return t
}
