// Command soak puts a load on a real leafd with a real MariaDB for as long as it is
// told to, takes the database away in the middle, and says whether the daemon kept
// what it promises: latency, no refusal, no ID twice, and memory, goroutines and
// descriptors that stay where they are. `make soak` builds the daemon, installs what
// is missing and runs it; docs/evidence/PROOF.md explains the output.
//
// Exit codes: 0 when all verdicts are kept, 1 when one is missed or the soak could
// not be made, 2 for wrong flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) //nolint:forbidigo // a program of its own: it ends itself
}

func run(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM) //nolint:forbidigo // a program of its own: it reads its signals
	defer stop()
	f, err := soak(ctx, o, stderr)
	if err == nil {
		err = f.print(stdout, o)
	}
	if err != nil {
		fmt.Fprintln(stderr, "soak:", err) //nolint:errcheck // there is nowhere left to report it
		return 1
	}
	if missed := f.missed(o); missed > 0 {
		fmt.Fprintf(stderr, "soak: %d verdicts missed\n", missed) //nolint:errcheck // there is nowhere left to report it
		return 1
	}
	return 0
}
