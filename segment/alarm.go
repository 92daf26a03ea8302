package segment

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/leafd/leafd/clock"
)

// alarm is a call to make at a moment of the monotonic clock.
type alarm struct {
	at    time.Duration
	fire  func() // short: closes a channel, cancels a context, queues a tag
	index int    // in the heap; -1 when it is not there
}

// alarms makes the calls of all alarms from one goroutine, on an injected
// clock: retries of thousands of tags, and waiting requests, cost a heap entry
// each, not a goroutine.
type alarms struct {
	clock clock.Clock // immutable

	mu     sync.Mutex
	heap   alarmHeap          // mu protects
	until  time.Duration      // mu protects; the goroutine sleeps that long
	wake   context.CancelFunc // mu protects; ends that sleep
	closed bool               // mu protects
}

// add sets an alarm, or returns nil when alarms are no longer kept. fire is
// called with no lock held, from another goroutine.
func (a *alarms) add(at time.Duration, fire func()) *alarm {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	al := &alarm{at: at, fire: fire}
	heap.Push(&a.heap, al)
	// The goroutine is woken for an earlier alarm only. Removing one doesn't
	// wake it, so that in steady work it wakes once per time-out, not per fetch.
	if a.wake != nil && at < a.until {
		a.wake()
	}
	return al
}

// remove takes al back, if it hasn't fired.
func (a *alarms) remove(al *alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if al.index >= 0 {
		heap.Remove(&a.heap, al.index)
	}
}

// len returns how many alarms are set.
func (a *alarms) len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.heap)
}

// run fires alarms until ctx is done; then it fires all that are left, so that
// nobody waits for ever, and keeps no new ones.
func (a *alarms) run(ctx context.Context) {
	for ctx.Err() == nil {
		due, wait, sleepCtx, cancel := a.collect(ctx)
		for _, al := range due {
			al.fire()
		}
		switch {
		case len(due) > 0:
		case wait == Forever:
			<-sleepCtx.Done()
		default:
			// An error means woken early or stopping: both are looked at next.
			_ = a.clock.Sleep(sleepCtx, wait)
		}
		cancel()
	}
	a.mu.Lock()
	a.closed = true
	a.wake = nil
	left := a.heap
	a.heap = nil
	for _, al := range left {
		al.index = -1
	}
	a.mu.Unlock()
	for _, al := range left {
		al.fire()
	}
}

// collect takes the alarms that are due; when there are none it says how long
// to sleep, on a context that add ends.
func (a *alarms) collect(ctx context.Context) ([]*alarm, time.Duration, context.Context, context.CancelFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Mono()
	var due []*alarm
	for len(a.heap) > 0 && a.heap[0].at <= now {
		al, _ := heap.Pop(&a.heap).(*alarm)
		due = append(due, al)
	}
	sleepCtx, cancel := context.WithCancel(ctx)
	a.wake, a.until = cancel, Forever
	if len(a.heap) == 0 {
		return due, Forever, sleepCtx, cancel
	}
	a.until = a.heap[0].at
	return due, a.until - now, sleepCtx, cancel
}

// alarmHeap implements heap.Interface, the earliest alarm first.
type alarmHeap []*alarm

func (h alarmHeap) Len() int           { return len(h) }
func (h alarmHeap) Less(i, j int) bool { return h[i].at < h[j].at }

func (h alarmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *alarmHeap) Push(x any) {
	al, _ := x.(*alarm)
	al.index = len(*h)
	*h = append(*h, al)
}

// Pop implements heap.Interface.
func (h *alarmHeap) Pop() any {
	old := *h
	last := len(old) - 1
	al := old[last]
	old[last] = nil
	*h = old[:last]
	al.index = -1
	return al
}
