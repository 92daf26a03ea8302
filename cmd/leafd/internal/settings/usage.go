package settings

import "fmt"

// UsageError is a mistake in the command line or the settings: nothing was done.
type UsageError struct{ err error }

func (e *UsageError) Error() string { return e.err.Error() }

func (e *UsageError) Unwrap() error { return e.err }

// AsUsage marks err as a mistake in the command line; nil stays nil.
func AsUsage(err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{err: err}
}

// Usagef returns a mistake in the command line or the settings, in words.
func Usagef(format string, args ...any) error {
	return &UsageError{err: fmt.Errorf(format, args...)}
}
