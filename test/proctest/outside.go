package proctest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"testing"
)

// Outside is the testing.TB that a program which is no test hands to the servers'
// packages: it keeps what a failed test would print, and the cleanups. The servers'
// packages don't call the methods of testing.TB that are missing here: those panic. It
// is for one goroutine at a time.
type Outside struct {
	testing.TB

	ctx      context.Context //nolint:containedctx // testing.TB hands it out by a method
	failed   []error
	cleanups []func()
}

// NewOutside returns an Outside with ctx as its Context.
func NewOutside(ctx context.Context) *Outside {
	if !flag.Parsed() { // testing.Short, which the servers' packages call, panics then
		testing.Init()
		if err := flag.CommandLine.Parse(nil); err != nil {
			panic(err) // of no argument
		}
	}
	return &Outside{ctx: ctx}
}

// Do calls fn, which may end by Fatal, and returns what it reported as failed.
func (o *Outside) Do(fn func(t testing.TB)) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		fn(o)
	}()
	<-ended
	return o.failure()
}

func (o *Outside) failure() error {
	err := errors.Join(o.failed...)
	o.failed = nil
	return err
}

// End runs the cleanups, last in, first out.
func (o *Outside) End() error {
	for len(o.cleanups) > 0 {
		last := len(o.cleanups) - 1
		fn := o.cleanups[last]
		o.cleanups = o.cleanups[:last]
		fn()
	}
	return o.failure()
}

// Helper implements testing.TB.
func (o *Outside) Helper() {}

// Context implements testing.TB.
func (o *Outside) Context() context.Context { return o.ctx }

// Cleanup implements testing.TB.
func (o *Outside) Cleanup(fn func()) { o.cleanups = append(o.cleanups, fn) }

// Failed implements testing.TB.
func (o *Outside) Failed() bool { return len(o.failed) > 0 }

// Log implements testing.TB.
func (o *Outside) Log(...any) {}

// Logf implements testing.TB.
func (o *Outside) Logf(string, ...any) {}

// Error implements testing.TB.
func (o *Outside) Error(args ...any) { o.failed = append(o.failed, errors.New(fmt.Sprint(args...))) }

// Errorf implements testing.TB.
func (o *Outside) Errorf(format string, args ...any) { o.Error(fmt.Sprintf(format, args...)) }

// Fatal implements testing.TB.
func (o *Outside) Fatal(args ...any) {
	o.Error(args...)
	runtime.Goexit()
}

// Fatalf implements testing.TB.
func (o *Outside) Fatalf(format string, args ...any) { o.Fatal(fmt.Sprintf(format, args...)) }
