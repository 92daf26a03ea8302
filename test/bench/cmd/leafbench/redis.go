package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/leafd/leafd/test/bench/internal/figures"
	"github.com/leafd/leafd/test/bench/internal/wrk"
)

// rawload runs rawload on the client's CPU.
func (o options) rawload(ctx context.Context, l load, d time.Duration) (wrk.Result, error) {
	cmd := exec.CommandContext(ctx, "taskset", "-c", strconv.Itoa(o.clientCPU), o.raw,
		"-protocol", l.raw, "-addr", l.on.Address, "-path", l.path, "-depth", strconv.Itoa(l.depth),
		"-conns", strconv.Itoa(l.connections()), "-for", d.String())
	cmd.Env = append(cmd.Environ(), "GOMAXPROCS=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return wrk.Result{}, fmt.Errorf("rawload %s: %w: %s", l.on.URL, err, strings.TrimSpace(string(out)))
	}
	return wrk.Parse(out)
}

// redisServer starts Redis without persistence: what INCR costs and nothing else.
func (o options) redisServer(ctx context.Context) (*server, error) {
	path, err := exec.LookPath(o.redis)
	if err != nil {
		return nil, fmt.Errorf("%w; `make deps-bench` installs it", err)
	}
	s, err := o.start(o.serverCPU, path, func(address string) []string {
		return []string{
			"--bind", "127.0.0.1", "--port", address[strings.LastIndexByte(address, ':')+1:], "--save", "", "--appendonly", "no",
			"--dir", filepath.Clean(o.dir), "--maxclients", "20000",
		}
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := s.AwaitListening(ctx); err != nil {
		return nil, errors.Join(err, s.Stop(stopWithin))
	}
	return s, nil
}

// runRedis compares leafd with Redis' INCR, the usual other way to get numbers that
// don't repeat, under the same load from the same program.
func runRedis(ctx context.Context, o options) (err error) {
	redis, err := o.redisServer(ctx)
	if err != nil {
		return err
	}
	servers := []*server{redis}
	defer func() { stopAll(&err, servers...) }()
	leafd, err := o.leafdServer(o.serverCPU, filepath.Join(o.dir, "redis"))
	if err != nil {
		return err
	}
	servers = append(servers, leafd)
	if _, err := leafd.answers(ctx, snowflakePath); err != nil {
		return err
	}
	rows := [][]string{{"", "IDs/s", "server's CPU an ID", "x Redis"}}
	for _, depth := range []int{1, pipelineDepth} {
		o.note("redis: %d deep", depth)
		loads := []load{
			{on: redis, path: "bench", raw: "redis", name: "Redis/INCR"},
			{on: leafd, path: segmentPath, raw: "http", name: "Redis/segment"},
			{on: leafd, path: snowflakePath, raw: "http", name: "Redis/snowflake"},
		}
		for i := range loads {
			loads[i].depth = depth
			loads[i].name += fmt.Sprintf("/deep=%d", depth)
		}
		s, err := o.loads(ctx, nil, loads...)
		if err != nil {
			return err
		}
		for i, name := range []string{"Redis INCR", "leafd segment", "leafd snowflake"} {
			rows = append(rows, []string{
				fmt.Sprintf("%s, %d deep", name, depth), kilo(figures.Median(s[i].perSecond)), micros(figures.Median(s[i].cpu)),
				fmt.Sprintf("%.2f", figures.MedianRatio(s[i].cpu, s[0].cpu)),
			})
		}
	}
	// What a client asks who wants many: leafd has one request for it.
	s, err := o.loads(ctx, nil, load{name: "Redis/segment/n=1000", on: leafd, path: fmt.Sprintf("%s?n=%d", segmentPath, batch), depth: 1, ids: batch, raw: "http"})
	if err != nil {
		return err
	}
	rows = append(rows, []string{
		fmt.Sprintf("leafd segment, batches of %d", batch), kilo(figures.Median(s[0].perSecond) * batch), micros(figures.Median(s[0].cpu) / batch), "",
	})
	return o.table(fmt.Sprintf("Against Redis' INCR without persistence, %d connections, one load program for both", wrk.Connections), rows)
}
