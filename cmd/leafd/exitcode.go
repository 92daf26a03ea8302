package main

import (
	"errors"
	"fmt"

	"github.com/leafd/leafd/worker"
)

// Exit codes, part of leafd's contract.
const (
	exitOK        = 0
	exitFailure   = 1
	exitUsage     = 2 // bad flags, settings or arguments
	exitClock     = 3 // the clock can't be trusted
	exitHeld      = 4 // another process is this node, or holds its data folder; or did so and fenced us
	exitExhausted = 5 // no worker ID left
)

// exitCode maps an error to the exit code of the process.
func exitCode(err error) int {
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, worker.ErrClockRefused):
		return exitClock
	case errors.Is(err, worker.ErrHeld), errors.Is(err, worker.ErrLocked), errors.Is(err, worker.ErrFenced):
		return exitHeld
	case errors.Is(err, worker.ErrExhausted):
		return exitExhausted
	default:
		return exitFailure
	}
}

// usageError is a mistake in the command line or the settings: nothing was done.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// asUsage marks err as a mistake in the command line; nil stays nil.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err: err}
}

func usagef(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...)}
}
