// Command cluster runs a whole leafd cluster on this machine until Ctrl-C: one
// ZooKeeper, one MariaDB and three daemons, on fixed ports of 127.0.0.1, with
// their data in temporary directories. It is for trying things out: whichever part is
// killed or frozen, the rest goes on, and a line on standard input brings the part back.
// `make cluster` builds the daemon, installs what is missing and runs it.
//
// Exit codes: 0 after Ctrl-C (SIGINT, SIGTERM or SIGHUP), 1 when a part did not start or
// did not stop; then all others have been stopped too.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) //nolint:forbidigo // a program of its own: it ends itself
}

// options is what the command line says.
type options struct {
	leafd   string   // the daemon's program
	sql     string   // the script that makes the table
	daemons int      // 1..maxDaemons
	base    int      // what is added to the ports; 0: any that are free
	serve   []string // more arguments for each daemon
}

// maxDaemons is more than a machine for trying things out can want.
const maxDaemons = 64

// Ports, less the base: those of the daemons, from 1 on, are between the others.
const (
	daemonPort    = 80
	zookeeperPort = 181
	mariadbPort   = 306
)

// port returns a fixed one, or 0 for any.
func (o options) port(offset int) int {
	if o.base == 0 {
		return 0
	}
	return o.base + offset
}

// setPorts takes what -ports says.
func (o *options) setPorts(text string) error {
	o.base = 0
	if text == "free" {
		return nil
	}
	base, err := strconv.ParseUint(text, 10, 16)
	if err != nil || base < 1000 || base > 65000 {
		return fmt.Errorf("%q: want 1000 to 65000, or free", text)
	}
	o.base = int(base)
	return nil
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var o options
	fs := flag.NewFlagSet("cluster", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.leafd, "leafd", "bin/leafd", "the program to run as the daemons")
	fs.StringVar(&o.sql, "sql", "deploy/leaf_alloc.sql", "the script that makes the table of the segments")
	o.base = 8000
	fs.Func("ports", "the ports: with 8000 daemons have 8081, 8082, …, ZooKeeper 8181 and MariaDB 8306; free means any that are free (default 8000)", o.setPorts)
	fs.IntVar(&o.daemons, "daemons", 3, "how many daemons, 1 to 64")
	fs.Usage = func() {
		fmt.Fprintln(stderr, "usage: cluster [flags] [-- flags of leafd serve]") //nolint:errcheck // there is nowhere left to report it
		fs.PrintDefaults()
	}
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case o.daemons < 1 || o.daemons > maxDaemons:
		fmt.Fprintf(stderr, "cluster: -daemons is %d: want 1 to %d\n", o.daemons, maxDaemons) //nolint:errcheck // there is nowhere left to report it
		return 2
	}
	o.serve = fs.Args()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP) //nolint:forbidigo // a program of its own: it reads its signals
	defer stop()
	// In the background of a terminal a read of standard input fails, instead of stopping us.
	signal.Ignore(syscall.SIGTTIN) //nolint:forbidigo // as above
	if err := runCluster(ctx, o, typed(stdin), &lines{w: stdout}); err != nil {
		fmt.Fprintln(stderr, "cluster:", err) //nolint:errcheck // there is nowhere left to report it
		return 1
	}
	return 0
}

// typed returns the lines that are typed.
func typed(r io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		for s := bufio.NewScanner(r); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}
