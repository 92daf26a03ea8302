package segmenttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Op is a call that a fault can be put into.
type Op string

// The calls of Store and its transactions (OpWarm is counted alone), of HighWater, and of Guard.
const (
	OpBegin    Op = "begin"
	OpMove     Op = "move"
	OpCommit   Op = "commit"
	OpRollback Op = "rollback"
	OpFind     Op = "find"
	OpWarm     Op = "warm"
	OpGet      Op = "get"  // HighWater's too
	OpPage     Op = "page" // HighWater's too
	OpCreate   Op = "create"
	OpUpdate   Op = "update"
	OpDelete   Op = "delete"
	OpUse      Op = "use"
	OpRaise    Op = "raise"
	OpRaised   Op = "raised"
	OpReadNote Op = "note"
	OpSetNote  Op = "set note"
	OpOpen     Op = "open"
	OpRead     Op = "read"
	OpWrite    Op = "write"
)

// ErrLate is what a Hook before OpCommit or OpWrite returns to have the caller get no answer, and the call
// be done by Deliver: a transaction holds its rows until then.
var ErrLate = errors.New("segmenttest: no answer yet")

// errHung is in what a call that hung, or was delayed, returns when its context ends.
var errHung = errors.New("segmenttest: no answer")

// Hook is called with each operation and its tags; the operation fails with what it returns.
type Hook func(ctx context.Context, op Op, tags []string) error

// Faults makes calls fail, hang, take long or lose their answers, and counts them. Where a method takes
// operations it is about these, or about all where there are none. Its zero value lets all pass.
type Faults struct {
	locked // protects all below

	plan
	calls map[Op]int
	late  []func()
}

// plan is what is to happen.
type plan struct {
	fail, next, slow, stuck fault
	left                    int // how often next fails
	before, after           Hook
}

// locked is a mutex, with which nothing waits.
type locked struct{ mu sync.Mutex }

func (l *locked) do(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// fault is what happens to the operations ops.
type fault struct {
	ops  []Op
	err  error
	wait time.Duration
	hang chan struct{}
}

// of is f for op; none where it is about others.
func (f fault) of(op Op) fault {
	if len(f.ops) == 0 || slices.Contains(f.ops, op) {
		return f
	}
	return fault{}
}

// Fail makes every call fail with err, as when the database is gone, until Fail(nil).
func (f *Faults) Fail(err error, ops ...Op) { f.do(func() { f.fail = fault{ops: ops, err: err} }) }

// FailNext makes the next n calls fail with err.
func (f *Faults) FailNext(n int, err error, ops ...Op) {
	f.do(func() { f.left, f.next = n, fault{ops: ops, err: err} })
}

// Delay makes every call take so long before it takes effect, until Delay(0).
func (f *Faults) Delay(d time.Duration, ops ...Op) {
	f.do(func() { f.slow = fault{ops: ops, wait: d} })
}

// Hang makes every call wait, until release is called or the call's context is
// done, as when the database is stopped or the network drops everything.
func (f *Faults) Hang(ops ...Op) (release func()) {
	hang := make(chan struct{})
	f.do(func() { f.stuck = fault{ops: ops, hang: hang} })
	return sync.OnceFunc(func() {
		f.do(func() {
			if f.stuck.hang == hang {
				f.stuck = fault{}
			}
		})
		close(hang)
	})
}

// Before calls h before each operation takes effect; nil ends that.
func (f *Faults) Before(h Hook) { f.do(func() { f.before = h }) }

// After calls h after each operation took effect; an error is as an answer that got lost.
func (f *Faults) After(h Hook) { f.do(func() { f.after = h }) }

// Calls returns how many calls have begun.
func (f *Faults) Calls(ops ...Op) (n int) {
	f.do(func() {
		for op, calls := range f.calls {
			if len(ops) == 0 || slices.Contains(ops, op) {
				n += calls
			}
		}
	})
	return n
}

// Deliver does what ErrLate has put off, in its order.
func (f *Faults) Deliver() {
	var late []func()
	f.do(func() { late, f.late = f.late, nil })
	for _, do := range late {
		do()
	}
}

func (f *Faults) count(op Op) {
	if f.calls == nil {
		f.calls = map[Op]int{}
	}
	f.calls[op]++
}

// run is a call, of which effect is what it does where no fault hinders it.
func (f *Faults) run(ctx context.Context, op Op, tags []string, effect func() error) error {
	var now plan
	f.do(func() {
		f.count(op)
		now = f.plan
		if f.left > 0 && now.fail.of(op).err == nil && now.next.of(op).err != nil {
			now.fail = now.next
			f.left--
		}
	})
	err := cmp.Or(ctx.Err(), f.wait(ctx, now.slow.of(op).wait, now.stuck.of(op).hang), now.fail.of(op).err)
	if err == nil && now.before != nil {
		err = now.before(ctx, op, tags)
	}
	if errors.Is(err, ErrLate) {
		f.do(func() { f.late = append(f.late, func() { _ = effect() }) })
	}
	if err == nil {
		err = effect()
	}
	if err == nil && now.after != nil {
		err = now.after(ctx, op, tags)
	}
	return err
}

// wait waits for d, and until hang is closed; not at all for 0 and nil.
func (f *Faults) wait(ctx context.Context, d time.Duration, hang chan struct{}) error {
	if d == 0 && hang == nil {
		return nil
	}
	for passed := time.After(d); passed != nil || hang != nil; {
		select {
		case <-passed:
			passed = nil
		case <-hang:
			hang = nil
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errHung, ctx.Err())
		}
	}
	return nil
}
