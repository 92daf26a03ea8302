package main

import (
	"io"
	"os"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
)

// newLogger returns the log that level and format ask for, written to w.
func newLogger(w io.Writer, level, format string) (zerolog.Logger, error) {
	parsed, err := zerolog.ParseLevel(level)
	if err != nil {
		return zerolog.Nop(), usagef("log-level is %q: %w", level, err)
	}
	terminal := isTerminal(w)
	if format == "console" || format == "auto" && terminal {
		w = zerolog.ConsoleWriter{Out: w, NoColor: !terminal, TimeFormat: "15:04:05.000"}
	}
	return zerolog.New(w).Level(parsed).With().Timestamp().Logger(), nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
