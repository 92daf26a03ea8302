// Command chaos torments a leafd cluster and checks every ID that comes out of it.
//
//	chaos run      starts a cluster, torments it for a while, checks, prints a table
//	chaos plan     prints what a seed will do
//	chaos check F  checks a history once more
//	chaos mutants  builds leafd with one guard removed each, and looks for it
//
// docs/evidence/PROOF.md tells what is done and what came of it. Exit codes: 0 all kept, 1 a
// violation was found (of mutants: one was not), 2 usage, 3 the run itself failed.
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

	"github.com/leafd/leafd/test/chaos/cluster"
)

const (
	exitOK        = 0
	exitViolation = 1
	exitUsage     = 2
	exitFailure   = 3
)

// errViolation and errUsage choose the exit code.
var (
	errViolation = errors.New("a promise was broken")
	errUsage     = errors.New("usage: chaos run|plan|check|mutants [flags]; chaos run -h lists them")
)

func main() {
	if code, again := isolate(); again {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		os.Exit(exitOK)
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(exitUsage)
	case errors.Is(err, errViolation):
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(exitViolation)
	default:
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(exitFailure)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	o, rest, err := parseOptions(args[0], args[1:], stderr)
	if err != nil {
		return err
	}
	if owns(ownNetwork) {
		if o.networks, err = cluster.SettleIn(); err != nil {
			return err
		}
	}
	switch args[0] {
	case "run":
		return runChaos(ctx, o, stdout)
	case "plan":
		return printPlan(o, stdout)
	case "check":
		if len(rest) != 1 {
			return fmt.Errorf("%w: check wants one file", errUsage)
		}
		return check(rest[0], stdout)
	case "mutants":
		return runMutants(ctx, o, rest, stdout)
	default:
		return errUsage
	}
}
