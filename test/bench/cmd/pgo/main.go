// Command pgo makes the profile that `make build` compiles leafd with: the
// daemon's request path, in this process, under rawload, one ID at a
// time, pipelined and in batches. It prints nothing but errors.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/segmenttest"
)

func main() {
	out := flag.String("o", "default.pgo", "profile to write")
	each := flag.Duration("each", 5*time.Second, "time per kind of load")
	raw := flag.String("raw", "bin/bench/rawload", "path of rawload")
	flag.Parse()
	if err := run(context.Background(), *out, *raw, *each); err != nil {
		fmt.Fprintln(os.Stderr, "pgo:", err)
		os.Exit(1)
	}
}

// open is a ceiling that is never reached: the real one costs the same load.
type open struct{}

func (open) Ceiling() clock.Millis                     { return math.MaxInt64 }
func (open) Await(context.Context, clock.Millis) error { return nil }

func run(ctx context.Context, out, raw string, each time.Duration) error {
	runtime.GOMAXPROCS(1)
	http, redis, err := serve(ctx)
	if err != nil {
		return err
	}
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		return err
	}
	for _, load := range []struct {
		ask   string
		depth int
	}{
		{"/api/snowflake/get/order", 1},
		{"/api/segment/get/leaf-segment-test", 1},
		{"/api/snowflake/get/order", 16},
		{"/api/segment/get/leaf-segment-test", 16},
		{"/api/segment/get/leaf-segment-test?n=1000", 1},
		{"INCR leaf-segment-test", 1},
		{"INCR leaf-segment-test", 16},
		{"LEAF.SNOWFLAKE order", 16},
	} {
		address := redis
		if strings.HasPrefix(load.ask, "/") {
			address = http
		}
		rawload := exec.CommandContext(ctx, "taskset", "-c", "1", raw, "-addr", address, "-ask", load.ask, "-depth", strconv.Itoa(load.depth), "-for", each.String())
		if err := rawload.Run(); err != nil {
			pprof.StopCPUProfile()
			return fmt.Errorf("%s: %w", load.ask, err)
		}
	}
	pprof.StopCPUProfile()
	return os.WriteFile(out, profile.Bytes(), 0o644) //nolint:gosec // no secret
}

// serve starts the server with real generators, on a table in memory, until ctx ends.
func serve(ctx context.Context) (http, redis string, err error) {
	flakes, err := snowflake.New(snowflake.Config{
		Layout: snowflake.DefaultLayout(), Worker: 1, Clock: clock.System(), Fence: open{}, Jitter: snowflake.DefaultJitter,
	})
	if err != nil {
		return "", "", err
	}
	store := segmenttest.NewStore()
	if err := store.Create(ctx, segment.Row{Tag: "leaf-segment-test", MaxID: 1, Step: 1_000_000}, nil); err != nil {
		return "", "", err
	}
	segments, err := segment.New(segment.Config{Store: store, HighWater: segmenttest.NewHighWater(), Marks: "memory", Clock: clock.System()})
	if err != nil {
		return "", "", err
	}
	go func() { _ = segments.Run(ctx) }() // nil: it ends with ctx
	var cfg server.Config
	cfg.Base, cfg.Clock = ctx, clock.System()
	srv, err := server.New(cfg)
	if err != nil {
		return "", "", err
	}
	srv.SetBackend(&views.Backend{Backend: ids.Backend{Snowflake: flakes, Layout: snowflake.DefaultLayout(), Segments: ids.FromService(segments)}, Admin: &segment.Table{Admin: store}})
	var addrs [2]string
	for i, surface := range []conn.Surface{conn.Public, conn.Redis} {
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", err
		}
		addrs[i] = ln.Addr().String()
		go func() { _ = srv.Serve(ln, surface) }() // a load that is not served fails
	}
	return addrs[0], addrs[1], nil
}
