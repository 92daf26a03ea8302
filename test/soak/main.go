// Command soak puts a load on a real leafd for hours, in ten rounds with a restart of its
// ZooKeeper and its MariaDB between each, and prints latencies and what the daemon takes.
// `make soak` builds what it needs and runs it; docs/evidence/PROOF.md has what came of it.
//
// It exits with 1 when a request failed, an ID came twice or did not grow, or memory,
// goroutines or descriptors grew.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/unique"
	"github.com/leafd/leafd/test/zookeepertest"
)

const (
	rounds = 10
	table  = "deploy/leaf_alloc.sql"
)

// streams are put on at once; each kind of IDs has to differ over all rounds.
var streams = []struct { //nolint:gochecknoglobals // a table
	mode  loadtest.Mode
	key   string
	batch int
	share float64 // of the rate
}{
	{loadtest.Snowflake, "order", 1, 0.48},
	{loadtest.Snowflake, "order", 100, 0.02},
	{loadtest.Segment, "leaf-segment-test", 1, 0.48},
	{loadtest.Segment, "leaf-segment-test", 100, 0.02},
}

// figures are metrics of the daemon that must not grow: by a tenth and this much.
var figures = []struct { //nolint:gochecknoglobals // a table
	metric string
	slack  float64
}{
	{"process_resident_memory_bytes", 4e6}, {"go_memstats_heap_inuse_bytes", 4e6}, {"go_goroutines", 5}, {"process_open_fds", 5},
}

func main() {
	testing.Init() // the servers' kits ask for its flags
	leafd := flag.String("leafd", "bin/leafd", "the daemon's `program`")
	duration := flag.Duration("duration", time.Hour, "of the load")
	rate := flag.Float64("rate", 50_000, "requests a second")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	host := proctest.NewOutside(ctx)
	err := host.Do(func(t testing.TB) { soak(t, *leafd, *duration, *rate) })
	err = errors.Join(err, host.End())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func soak(t testing.TB, leafd string, duration time.Duration, rate float64) {
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	zookeeper, mariadb := zookeepertest.Start(t), mariadbtest.Start(t)
	script, err := os.ReadFile(table)
	must(err)
	db := mariadb.DB(t, "")
	for _, statement := range []string{string(script), "UPDATE leaf.leaf_alloc SET step = 1000000"} { // a range for eight seconds
		_, err := db.ExecContext(t.Context(), statement)
		must(err)
	}
	must(db.Close())
	out, err := exec.CommandContext(t.Context(), leafd, "cluster", "init", "--new", "--yes", "--zk", zookeeper.Addr()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	address, err := proctest.FreeAddress()
	must(err)
	dir, err := os.MkdirTemp("", "leafd-soak-")
	must(err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // nothing is lost with what stays
	daemon, err := proctest.StartDaemon(proctest.Config{
		Command: []string{leafd, "serve", "--listen", address, "--data-dir", filepath.Join(dir, "data"), "--zk", zookeeper.Addr()},
		Env:     []string{"LEAFD_MYSQL=" + mariadb.DSN("leaf")}, Address: address,
	})
	must(err)
	t.Cleanup(func() { must(daemon.Stop(proctest.Patience)) })
	must(daemon.AwaitReady(t.Context()))

	sets := map[loadtest.Mode]*unique.Set{loadtest.Snowflake: {}, loadtest.Segment: {}}
	var wrong []error
	var samples [][]float64 // by round and figure
	for round := range rounds {
		if round > 0 {
			zookeeper.Kill(t)
			mariadb.Kill(t)
			zookeeper.Restart(t)
			mariadb.Restart(t)
		}
		var group errgroup.Group
		results := make([]*loadtest.Result, len(streams))
		for i, s := range streams {
			group.Go(func() (err error) {
				results[i], err = loadtest.Run(t.Context(), loadtest.Config{
					URLs: []string{daemon.URL}, Mode: s.mode, Keys: []string{s.key}, Batch: s.batch, Rate: rate * s.share, Clients: 64,
					Duration: duration / rounds, Timeout: 10 * time.Second, Growing: true, Take: sets[s.mode].Take,
				})
				return err
			})
		}
		must(group.Wait())
		for i, s := range streams {
			r := results[i]
			fmt.Printf("round %2d: %-9s of %3d: %d of %d answered, p50 %s, p99 %s, p99.9 %s, longest %s\n",
				round+1, s.mode, s.batch, r.Answered, r.Due, r.Latency.P50, r.Latency.P99, r.Latency.P999, r.Latency.Max)
			wrong = append(wrong, r.Verdict())
			if r.Failed > 0 {
				wrong = append(wrong, fmt.Errorf("%d requests failed: %+v", r.Failed, r.Failures))
			}
		}
		taken, err := sample(t.Context(), daemon.URL)
		must(err)
		fmt.Printf("          daemon: %v\n", taken)
		samples = append(samples, taken)
	}
	for mode, set := range sets {
		ids, repeated := set.Came()
		fmt.Printf("%s: %d IDs\n", mode, ids)
		if len(repeated) > 0 {
			wrong = append(wrong, fmt.Errorf("%s IDs came twice: %v", mode, repeated))
		}
	}
	must(errors.Join(append(wrong, grown(samples))...))
}

// sample returns what the daemon takes, by figure.
func sample(ctx context.Context, url string) (values []float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	for _, f := range figures {
		_, after, _ := strings.Cut(string(text), "\n"+f.metric+" ")
		var value float64
		if _, missing := fmt.Sscan(after, &value); missing != nil {
			err = errors.Join(err, fmt.Errorf("the metrics have no %s: %w", f.metric, missing))
		}
		values = append(values, value)
	}
	return values, err
}

// grown returns an error for each figure that was higher in all of the last three rounds than
// it was in any from the third to the fifth, when the daemon is warm.
func grown(samples [][]float64) (err error) {
	for i, f := range figures {
		var of []float64
		for _, s := range samples {
			of = append(of, s[i])
		}
		before, after := slices.Max(of[2:5]), slices.Min(of[rounds-3:])
		if after > 1.1*before+f.slack {
			err = errors.Join(err, fmt.Errorf("%s grew: %v", f.metric, of))
		}
	}
	return err
}
