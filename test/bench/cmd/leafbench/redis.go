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
		"-addr", l.on.redis, "-command", l.command, "-depth", strconv.Itoa(l.depth),
		"-conns", strconv.Itoa(wrk.Connections), "-for", d.String())
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
	s.redis = s.Address
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := s.AwaitListening(ctx); err != nil {
		return nil, errors.Join(err, s.Stop(stopWithin))
	}
	return s, nil
}

// runRedis compares leafd with Redis' INCR, the usual other way to get numbers that
// don't repeat, under the same load from the same program, and with itself over HTTP.
func runRedis(ctx context.Context, o options) (err error) {
	w, err := wrk.New(o.dir, o.clientCPU)
	if err != nil {
		return err
	}
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
	most := map[int]figures.Target{1: figures.AtMost(1), pipelineDepth: figures.AtMost(0.6)}
	for _, depth := range []int{1, pipelineDepth} {
		o.note("redis: %d deep", depth)
		asked := []struct {
			name   string
			load   load
			target figures.Target
		}{
			{"Redis INCR", load{on: redis, command: "INCR bench", name: "Redis/INCR"}, figures.Target{}},
			{"leafd INCR", load{on: leafd, command: "INCR " + segmentTag, name: "Redis/leafdINCR"}, most[depth]},
			{"leafd LEAF.SNOWFLAKE", load{on: leafd, command: "LEAF.SNOWFLAKE x", name: "Redis/leafdSNOWFLAKE"}, most[depth]},
			{"leafd segment, HTTP", load{on: leafd, path: segmentPath, name: "Redis/segment"}, figures.Target{}},
			{"leafd snowflake, HTTP", load{on: leafd, path: snowflakePath, name: "Redis/snowflake"}, figures.Target{}},
		}
		var loads []load
		for _, a := range asked {
			a.load.depth = depth
			a.load.name += fmt.Sprintf("/deep=%d", depth)
			loads = append(loads, a.load)
		}
		s, err := o.loads(ctx, w, loads...)
		if err != nil {
			return err
		}
		for i, a := range asked {
			rows = append(rows, []string{
				fmt.Sprintf("%s, %d deep", a.name, depth), kilo(figures.Median(s[i].perSecond)), micros(figures.Median(s[i].cpu)),
				a.target.Beside("%.2f", figures.MedianRatio(s[i].cpu, s[0].cpu)),
			})
		}
	}
	return o.redisBatches(ctx, w, leafd, rows)
}

// redisBatches adds the requests of a client that wants many IDs, for which leafd has a command.
func (o options) redisBatches(ctx context.Context, w *wrk.Client, leafd *server, rows [][]string) error {
	all := []load{
		{name: "Redis/leafdSNOWFLAKE/n=1000", on: leafd, command: fmt.Sprintf("LEAF.SNOWFLAKE x %d", batch), depth: 1, ids: batch},
		{name: "Redis/leafdSEGMENT/n=1000", on: leafd, command: fmt.Sprintf("LEAF.SEGMENT %s %d", segmentTag, batch), depth: 1, ids: batch},
		{name: "Redis/segment/n=1000", on: leafd, path: fmt.Sprintf("%s?n=%d", segmentPath, batch), depth: 1, ids: batch},
	}
	s, err := o.loads(ctx, w, all...)
	if err != nil {
		return err
	}
	for i, name := range []string{"leafd LEAF.SNOWFLAKE x", "leafd LEAF.SEGMENT", "leafd segment, HTTP,"} {
		rate, cores := kilo(figures.Median(s[i].perSecond)*batch), fmt.Sprintf("%.2f CPUs", figures.Median(s[i].cores))
		if i == 0 { // as many as the layout allows, at a quarter of a CPU
			rate = figures.AtLeast(layoutLimit*0.98/1e3).Beside("%.1f k", figures.Median(s[i].perSecond)*batch/1e3)
			cores = figures.AtMost(0.25).Beside("%.2f CPUs", figures.Median(s[i].cores))
		}
		rows = append(rows, []string{fmt.Sprintf("%s %d", name, batch), rate, micros(figures.Median(s[i].cpu) / batch), cores})
	}
	return o.table(fmt.Sprintf("Against Redis' INCR without persistence, %d connections; rawload asks in Redis' protocol, wrk over HTTP", wrk.Connections), rows)
}
