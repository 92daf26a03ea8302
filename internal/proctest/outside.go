package proctest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
)

// Outside stands in for the test that the servers' packages want, in a program
// that is none: it keeps what a failed test would say, and what is to be done at
// its end. What of testing.TB isn't here they don't use: a call of it panics. It is
// for one goroutine at a time.
//
// The program has to call testing.Init, and flag.CommandLine.Parse, before: whether
// tests are to be short is asked of package testing's flags.
type Outside struct {
	testing.TB

	ctx      context.Context //nolint:containedctx // testing.TB hands it out by a method
	failed   []error
	cleanups []func()
}

// NewOutside returns an Outside whose Context is ctx.
func NewOutside(ctx context.Context) *Outside { return &Outside{ctx: ctx} }

// Do calls fn, which may end by Fatal, and returns what failed.
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

// End does what was to be done at the end, last in, first out.
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
