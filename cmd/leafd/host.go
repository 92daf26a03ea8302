//go:build !chaos

package main

import (
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// host returns the clock that the daemon goes by, and the packages' own defaults.
func host() (clock.Clock, settings.Tuning) { return clock.System(), settings.Tuning{} }
