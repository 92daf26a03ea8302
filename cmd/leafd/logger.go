package main

import (
	"io"
	"os"
	"sync/atomic"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
)

// logLevel is the least severe level that is logged. Unlike a logger's own it may
// change while the daemon runs, for every logger that was made from the first one;
// zerolog's global level would change for whatever else runs in the process.
type logLevel struct{ least atomic.Int32 }

// Run implements zerolog.Hook.
func (l *logLevel) Run(e *zerolog.Event, level zerolog.Level, _ string) {
	if level < zerolog.Level(l.least.Load()) { //nolint:gosec // set stores levels, -1 to 7
		e.Discard()
	}
}

func (l *logLevel) set(level zerolog.Level) { l.least.Store(int32(level)) }

// newLogger returns the log that level and format ask for, written to w, and the
// level, to change it.
func newLogger(w io.Writer, level, format string) (zerolog.Logger, *logLevel, error) {
	parsed, err := zerolog.ParseLevel(level)
	if err != nil {
		return zerolog.Nop(), nil, usagef("log-level is %q: %w", level, err)
	}
	terminal := isTerminal(w)
	if format == "console" || format == "auto" && terminal {
		w = zerolog.ConsoleWriter{Out: w, NoColor: !terminal, TimeFormat: "15:04:05.000"}
	}
	least := &logLevel{}
	least.set(parsed)
	return zerolog.New(w).Hook(least).With().Timestamp().Logger(), least, nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
