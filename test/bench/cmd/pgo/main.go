// Command pgo makes the profile that `make build` compiles leafd with: the
// daemon's request path, in this process, under rawload, one ID at a
// time, pipelined and in batches. It prints nothing but errors.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/snowflake"
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

func run(ctx context.Context, out, raw string, each time.Duration) (err error) {
	runtime.GOMAXPROCS(1)
	dir, err := os.MkdirTemp("", "pgo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	srv, http, redis, stop, err := serve(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.Shutdown(ctx)); stop() }()

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

// serve starts the server with real generators, on a store in dir.
func serve(ctx context.Context, dir string) (srv *server.Server, http, redis string, stop func(), err error) {
	flakes, err := snowflake.New(snowflake.Config{
		Layout: snowflake.DefaultLayout(), Worker: 1, Clock: clock.System(), Fence: open{}, Jitter: snowflake.DefaultJitter,
	})
	if err != nil {
		return nil, "", "", nil, err
	}
	store, err := sqlstore.OpenSQLite(filepath.Join(dir, "segments.db"))
	if err != nil {
		return nil, "", "", nil, err
	}
	marks, err := sqlstore.OpenHighWater(filepath.Join(dir, "marks.db"))
	if err != nil {
		return nil, "", "", nil, errors.Join(err, store.Close())
	}
	segments, err := segment.New(segment.Config{Store: store, HighWater: marks, Marks: "segments.db", Clock: clock.System()})
	if err != nil {
		return nil, "", "", nil, errors.Join(err, marks.Close(), store.Close())
	}
	life, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = segments.Run(life) }() // nil: it ends with life
	stop = func() {
		end()
		<-ended
		if err := errors.Join(marks.Close(), store.Close()); err != nil {
			fmt.Fprintln(os.Stderr, "pgo:", err)
		}
	}
	var cfg server.Config
	cfg.Base, cfg.Clock = life, clock.System()
	srv, err = server.New(cfg)
	if err != nil {
		stop()
		return nil, "", "", nil, err
	}
	srv.SetBackend(&views.Backend{Backend: ids.Backend{Snowflake: flakes, Layout: snowflake.DefaultLayout(), Segments: ids.FromService(segments)}, Admin: &segment.Table{Admin: store}})
	var addrs [2]string
	for i, surface := range []conn.Surface{conn.Public, conn.Redis} {
		var lc net.ListenConfig
		ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			stop()
			return nil, "", "", nil, err
		}
		addrs[i] = ln.Addr().String()
		go func() {
			if err := srv.Serve(ln, surface); err != nil {
				fmt.Fprintln(os.Stderr, "pgo:", err)
			}
		}()
	}
	return srv, addrs[0], addrs[1], stop, nil
}
