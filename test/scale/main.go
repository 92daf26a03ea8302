// Command scale starts many registries at once on a ZooKeeper of its own, and counts what each asks
// of ZooKeeper. `make bench-scale` installs what is missing and runs it; docs/evidence/BENCHMARKS.md
// has what came of it.
//
// It exits with 1 unless every bound of requests is kept and nothing failed. Times decide nothing:
// they are the machine's, too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
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
	testing.Init() // the servers' kits ask for its flags
	sizes := flag.String("n", "10,100,1000", "how many registries start at once, some `numbers`")
	running := flag.Int("running", 100, "how many registries run, beside which one comes and goes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := bench(ctx, strings.Split(*sizes, ","), *running)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// bench measures everything, and prints it.
func bench(ctx context.Context, sizes []string, running int) error {
	host := proctest.NewOutside(ctx)
	began := time.Now()
	var rows []row
	err := host.Do(func(t testing.TB) {
		server := zookeepertest.Start(t)
		r := &rig{t: t, server: server, conn: server.Conn(t), note: func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
		}}
		for _, size := range sizes {
			n, err := strconv.Atoi(size)
			r.must(err)
			rows = append(rows, r.young(n)...)
			rows = append(rows, r.starts(n)...)
		}
		rows = append(rows, r.running(running, worker.DefaultReportInterval, time.Second)...)
	})
	return errors.Join(err, host.End(), printRows(rows))
}

// printRows prints the table. It returns an error for each bound that was missed.
func printRows(rows []row) (err error) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	line := func(columns ...any) {
		_, printed := fmt.Fprintf(table, strings.Repeat("%v\t", len(columns))+"\n", columns...)
		err = errors.Join(err, printed)
	}
	line("STEP", "N", "REQUESTS, MEDIAN", "MOST", "BOUND", "SECONDS", "")
	for _, r := range rows {
		line(r.step, r.n, r.median, r.most, r.bound, fmt.Sprintf("%.1f", r.took.Seconds()), r.says)
		if r.missed() {
			err = errors.Join(err, fmt.Errorf("%s of %d: missed", r.step, r.n))
		}
	}
	return errors.Join(err, table.Flush())
}
