// Command cluster runs a whole leafd cluster on this machine until Ctrl-C: one
// ZooKeeper, one MariaDB and three daemons, on free ports of 127.0.0.1, with
// their data in temporary directories. It is for trying things out; `make cluster`
// builds the daemon, installs what is missing and runs it.
//
// Exit codes: 0 after Ctrl-C (SIGINT, SIGTERM or SIGHUP), 1 when a part did not start, or
// died; then all others have been stopped too.
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
	"time"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) //nolint:forbidigo // a program of its own: it ends itself
}

// options is what the command line says.
type options struct {
	leafd      string        // the daemon's program
	sql        string        // the script that makes the table
	daemons    int           // 1..maxDaemons
	stopWithin time.Duration // of a daemon
	serve      []string      // more arguments for each daemon
}

// maxDaemons is more than a machine for trying things out can want.
const maxDaemons = 64

func run(args []string, stdout, stderr io.Writer) int {
	var o options
	fs := flag.NewFlagSet("cluster", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.leafd, "leafd", "bin/leafd", "the program to run as the daemons")
	fs.StringVar(&o.sql, "sql", "deploy/leaf_alloc.sql", "the script that makes the table of the segments")
	fs.IntVar(&o.daemons, "daemons", 3, "how many daemons, 1 to 64")
	fs.DurationVar(&o.stopWithin, "stop-within", 20*time.Second, "how long a daemon may take over a clean stop before it is killed")
	fs.Usage = func() {
		fmt.Fprintln(stderr, "usage: cluster [flags] [-- flags of leafd serve]") //nolint:errcheck // nobody is left to tell
		fs.PrintDefaults()
	}
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case o.daemons < 1 || o.daemons > maxDaemons:
		fmt.Fprintf(stderr, "cluster: -daemons is %d: want 1 to %d\n", o.daemons, maxDaemons) //nolint:errcheck // nobody is left to tell
		return 2
	}
	o.serve = fs.Args()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP) //nolint:forbidigo // a program of its own: it reads its signals
	defer stop()
	err := runCluster(ctx, o, &lines{w: stdout})
	if err != nil {
		fmt.Fprintln(stderr, "cluster:", err) //nolint:errcheck // nobody is left to tell
		return 1
	}
	return 0
}
