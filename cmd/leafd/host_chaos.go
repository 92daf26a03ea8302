//go:build chaos

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/test/clocktest"
)

// host returns the machine's clock, off by what the file CHAOS_CLOCK says, and the JSON in
// CHAOS_TUNING: chaos runs step the one and set the other. Only builds with the tag chaos
// have it.
func host() (clock.Clock, settings.Tuning) {
	var clk clock.Clock = clock.System()
	var tuning settings.Tuning
	var failed error
	if text := os.Getenv("CHAOS_TUNING"); text != "" {
		strict := json.NewDecoder(strings.NewReader(text))
		strict.DisallowUnknownFields()
		failed = strict.Decode(&tuning)
	}
	if path := os.Getenv("CHAOS_CLOCK"); path != "" && failed == nil {
		clk, failed = clocktest.OpenSkewed(path)
	}
	if failed != nil {
		fmt.Fprintln(os.Stderr, "leafd:", failed)
		os.Exit(cli.ExitFailure)
	}
	return clk, tuning
}
