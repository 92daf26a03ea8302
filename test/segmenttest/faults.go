package segmenttest

import (
	"context"
	"sync"
)

// Op is a call that a fault can be put into.
type Op string

// The calls of Store, HighWater and Guard.
const (
	OpFetch Op = "fetch"
	OpEach  Op = "each"
	OpFind  Op = "find"
	OpMarks Op = "marks"
	OpRaise Op = "raise"
	OpOpen  Op = "open"
	OpGet   Op = "get"
	OpPut   Op = "put"
)

// Hook is called with each operation; the operation fails with what it returns.
type Hook func(ctx context.Context, op Op, tag string) error

// Faults makes calls fail or hang. Its zero value lets all pass.
type Faults struct {
	mu     sync.Mutex
	err    error
	next   int
	nextBy error
	hang   chan struct{}
	hung   int
	before Hook
	after  Hook
}

// Fail makes every call fail with err, as when the database is gone, until
// Fail(nil).
func (f *Faults) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// FailNext makes the next n calls fail with err.
func (f *Faults) FailNext(n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next, f.nextBy = n, err
}

// Hang makes every call wait, until release is called or the call's context is
// done, as when the database is stopped or the network drops everything.
func (f *Faults) Hang() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	hang := make(chan struct{})
	f.hang = hang
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.hang == hang {
			f.hang = nil
			close(hang)
		}
	}
}

// Hung returns how many calls wait now.
func (f *Faults) Hung() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hung
}

// Before calls h before each operation takes effect; nil ends that.
func (f *Faults) Before(h Hook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = h
}

// After calls h after each operation took effect; an error is as a reply that
// got lost.
func (f *Faults) After(h Hook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after = h
}

func (f *Faults) enter(ctx context.Context, op Op, tag string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	err, hang, before := f.err, f.hang, f.before
	if err == nil && f.next > 0 {
		f.next--
		err = f.nextBy
	}
	if hang != nil {
		f.hung++
	}
	f.mu.Unlock()
	if hang != nil {
		defer func() {
			f.mu.Lock()
			f.hung--
			f.mu.Unlock()
		}()
		select {
		case <-hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err == nil && before != nil {
		err = before(ctx, op, tag)
	}
	return err
}

func (f *Faults) leave(ctx context.Context, op Op, tag string) error {
	f.mu.Lock()
	after := f.after
	f.mu.Unlock()
	if after == nil {
		return nil
	}
	return after(ctx, op, tag)
}
