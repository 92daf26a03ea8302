//go:build chaos

package main

import (
	"fmt"
	"os"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clocktest"
)

// hostClock is the machine's clock, off by what the file CHAOS_CLOCK says: chaos
// runs step it from outside. Only builds with the tag chaos have it.
func hostClock() clock.Clock {
	path := os.Getenv("CHAOS_CLOCK")
	if path == "" {
		return clock.System()
	}
	clk, err := clocktest.OpenSkewed(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "leafd:", err)
		os.Exit(cli.ExitFailure)
	}
	return clk
}
