// Command leafd hands out 64-bit IDs that never repeat, and looks after the
// daemon that does so. One file holds one command: flags -> Config -> one call.
// Only this package ends the process or reads signals.
package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/leafd/leafd/clock"
)

// process is what a run of leafd gets from its surroundings. main takes it from
// the operating system, tests make it up.
type process struct {
	Args   []string // without the program's name
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Env    map[string]string
	Clock  clock.Clock
	// Settle and PeerInterval are daemonDeps'; 0 but in tests.
	Settle, PeerInterval time.Duration
}

func main() {
	// zerolog keeps its time format in a global variable: it is set once, here,
	// where nothing else runs yet.
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	os.Exit(run(context.Background(), process{
		Args:   os.Args[1:],
		Stdin:  os.Stdin,
		Stdout: os.Stdout,
		Stderr: os.Stderr,
		Env:    environ(os.Environ()),
		Clock:  hostClock(),
	}))
}

// run carries out one command line and returns the exit code of the process.
// It keeps nothing in global variables, so that tests call it in parallel.
func run(ctx context.Context, p process) int {
	return newApp(p).run(ctx)
}
