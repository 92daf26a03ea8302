// Command leafd hands out 64-bit IDs that never repeat, and looks after the daemon
// that does so. Its commands stand in internal/cli; only main ends the process.
package main

import (
	"context"
	"os"

	"github.com/rs/zerolog"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// Stamped by the linker: -ldflags "-X main.version=1.2.3 -X main.commit=... -X main.date=...".
//
//nolint:gochecknoglobals // the linker sets nothing but global variables
var version, commit, date string

func main() {
	// zerolog keeps its time format in a global variable: it is set once, here,
	// where nothing else runs yet.
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	clk, tuning := host()
	os.Exit(cli.Run(context.Background(), cli.Process{
		Args:   os.Args[1:],
		Stdout: os.Stdout,
		Stderr: os.Stderr,
		Env:    cli.Environ(os.Environ()),
		File:   settings.ServiceFile,
		Clock:  clk,
		Tuning: tuning,
		Build:  cli.Build{Version: version, Commit: commit, Date: date},
	}))
}
