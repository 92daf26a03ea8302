// Command scale starts many registries at once on a ZooKeeper of its own, and as many real
// daemons, and counts what each asks of ZooKeeper. `make bench-scale` builds the daemon,
// installs what is missing and runs it; docs/evidence/BENCHMARKS.md has what came of it.
//
// Exit codes: 0 when every bound of requests is kept and nothing failed, 1 otherwise, 2 for
// wrong flags. Times decide nothing: they are the machine's, too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) //nolint:forbidigo // a program of its own: it ends itself
}

// options is what the command line says.
type options struct {
	sizes   []int  // how many registries start at once
	program string // leafd's path; empty: no processes are started
	running int    // how many registries run, and how many processes start
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
	if err := bench(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "scale:", err) //nolint:errcheck // there is nowhere left to report it
		return 1
	}
	return 0
}

// parse reads the command line; what is wrong with it is on stderr.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var sizes string
	fs := flag.NewFlagSet("scale", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&sizes, "n", "10,100,1000", "how many registries start at once, some `numbers`")
	fs.StringVar(&o.program, "leafd", "bin/leafd", "the daemon's `program`")
	fs.IntVar(&o.running, "running", 100, "how many registries run, beside which one comes and goes, and how many processes start at once")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	var err error
	for size := range strings.SplitSeq(sizes, ",") {
		n, atoi := strconv.Atoi(size)
		if atoi != nil || n < 1 || n > maxSize {
			err = fmt.Errorf("-n is %q: want numbers from 1 to %d, with commas between them", sizes, maxSize)
		}
		o.sizes = append(o.sizes, n)
	}
	if o.running < 1 || o.running > maxSize {
		err = fmt.Errorf("-running is %d: want 1 to %d", o.running, maxSize)
	}
	if fs.NArg() > 0 {
		err = fmt.Errorf("%q: want flags only", fs.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(stderr, "scale:", err) //nolint:errcheck // there is nowhere left to report it
	}
	return o, err
}

// maxSize is fewer than the worker IDs of the default layout.
const maxSize = 1000

// bench measures everything, and prints it.
func bench(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "leafd-scale-")
	if err != nil {
		return err
	}
	host := proctest.NewOutside(ctx)
	defer func() { err = errors.Join(err, host.End(), os.RemoveAll(dir)) }()
	began, before := time.Now(), load()
	var rows []row
	err = host.Do(func(t testing.TB) {
		server := zookeepertest.Start(t)
		r := &rig{t: t, server: server, conn: server.Conn(t), note: func(format string, args ...any) {
			fmt.Fprintf(stderr, "%6.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...)) //nolint:errcheck // for people
		}}
		for _, n := range o.sizes {
			rows = append(rows, r.young(n)...)
			rows = append(rows, r.starts(n)...)
		}
		rows = append(rows, r.running(o.running, worker.DefaultReportInterval, time.Second)...)
		rows = append(rows, r.pods(o.program, dir, o.running).starts()...)
	})
	missed, printed := printRows(stdout, rows, fmt.Sprintf("%s, %d CPUs, load average %s before, %s after", runtime.Version(), runtime.NumCPU(), before, load()))
	if missed > 0 {
		err = errors.Join(err, fmt.Errorf("%d bounds missed", missed))
	}
	return errors.Join(err, printed)
}

// printRows writes the table, and returns how many bounds were missed.
func printRows(w io.Writer, rows []row, machine string) (missed int, err error) {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	line := func(format string, args ...any) { fmt.Fprintf(table, format+"\n", args...) } //nolint:errcheck // Flush tells
	line("%s\n", machine)
	line("STEP\tN\tREQUESTS, MEDIAN\tMOST\tBOUND\tSECONDS\t")
	for _, r := range rows {
		bound, seconds := "", ""
		if r.bound > 0 {
			bound = fmt.Sprint(r.bound)
		}
		if r.took > 0 {
			seconds = fmt.Sprintf("%.1f", r.took.Seconds())
		}
		if r.missed() {
			bound += " MISSED"
			missed++
		}
		line("%s\t%d\t%s\t%s\t%s\t%s\t%s", r.step, r.n, figure(r.median), figure(r.most), bound, seconds, r.says)
	}
	return missed, table.Flush()
}

// figure leaves out what was not counted.
func figure(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// load is the machine's load average of the last minute.
func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(data), " ")
	return first
}
