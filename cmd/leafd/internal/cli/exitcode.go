package cli

import (
	"cmp"
	"errors"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/server/condition"
)

// Exit codes, part of leafd's contract.
const (
	ExitOK        = 0
	ExitFailure   = 1
	ExitUsage     = 2 // bad flags, settings or arguments
	ExitClock     = condition.ExitClock
	ExitHeld      = condition.ExitHeld
	ExitExhausted = condition.ExitExhausted
)

// exitHelp is what the help and the manual say of them.
const exitHelp = `Exit codes:
  0  clean
  1  failure
  2  usage: a flag, a setting or an argument is wrong
  3  the clock was refused
  4  the identity is another process's, or the root or data directory another cluster's
  5  no worker ID is left`

// ExitCode maps an error to the exit code of the process.
func ExitCode(err error) int {
	var usage *settings.UsageError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage):
		return ExitUsage
	}
	return cmp.Or(condition.Exit(err), ExitFailure)
}
