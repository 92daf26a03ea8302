package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/leafd/leafd/test/bench/internal/figures"
)

const (
	deep  = 16
	batch = 1000
	// layoutLimit is what 12 bits of sequence allow: 4096 IDs a millisecond.
	layoutLimit = 4096 * 1000
)

// runHTTP compares requests for one ID with a bare server that answers as much, and measures
// requests for many.
func runHTTP(ctx context.Context, o options) (err error) {
	var servers [3]*server
	defer func() { stopAll(&err, servers[:]...) }()
	for i := range servers {
		if i < 2 {
			servers[i], err = start(serverCPU, "bin/bench/barehttp", func(address string) []string { return []string{"-addr", address} })
		} else {
			servers[i], err = o.leafdServer(serverCPU, filepath.Join(o.dir, "http"))
		}
		if err != nil {
			return err
		}
		if _, err := servers[i].answers(ctx, snowflakePath); err != nil {
			return err
		}
	}
	bare, leafd := servers[0], servers[2]
	none, perSecond, perSecondDeep, cpu := figures.Target{}, figures.AtLeast(0.97), figures.AtLeast(0.95), figures.AtMost(1.05)
	rows := [][]string{{"", "leafd req/s", "bare req/s", "ratio", "leafd CPU/req", "bare CPU/req", "ratio"}}
	for _, c := range []struct {
		name           string
		on             *server
		path           string
		depth          int
		perSecond, cpu figures.Target
	}{
		{"A/A: bare against itself", servers[1], snowflakePath, 1, none, none},
		{"snowflake, one ID", leafd, snowflakePath, 1, perSecond, cpu},
		{"segment, one ID", leafd, segmentPath, 1, perSecond, cpu},
		{"A/A, 16 deep", servers[1], snowflakePath, deep, none, none},
		{"snowflake, 16 deep", leafd, snowflakePath, deep, perSecondDeep, none},
		{"segment, 16 deep", leafd, segmentPath, deep, perSecondDeep, none},
	} {
		o.note("http: %s", c.name)
		s, err := o.loads(ctx, load{on: c.on, ask: c.path, depth: c.depth}, load{on: bare, ask: c.path, depth: c.depth})
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		rows = append(rows, []string{
			c.name,
			in("%.1f k", 1e-3, s[0].perSecond), in("%.1f k", 1e-3, s[1].perSecond), c.perSecond.Beside("%.3f", figures.MedianRatio(s[0].perSecond, s[1].perSecond)),
			in("%.3f us", 1, s[0].cpu), in("%.3f us", 1, s[1].cpu), c.cpu.Beside("%.3f", figures.MedianRatio(s[0].cpu, s[1].cpu)),
		})
	}
	if err := figures.Table(os.Stdout, fmt.Sprintf("HTTP, server on one CPU, rawload on another, %d connections; ratios are medians of alternating pairs", connections), rows...); err != nil {
		return err
	}
	o.note("http: batches")
	s, err := o.loads(ctx, load{on: leafd, ask: snowflakePath + "?n=1000", depth: 1}, load{on: leafd, ask: segmentPath + "?n=1000", depth: 1})
	if err != nil {
		return err
	}
	return figures.Table(os.Stdout, "Batches of 1,000", []string{"", "IDs/s", "CPU an ID", "server's CPU", "of the layout's 4,096,000/s"},
		[]string{
			"snowflake", in("%.2f M", batch/1e6, s[0].perSecond), in("%.3f us", 1./batch, s[0].cpu), figures.AtMost(0.40).Beside("%.2f", figures.Median(s[0].cores)),
			figures.AtLeast(0.98).Beside("%.3f", figures.Median(s[0].perSecond)*batch/layoutLimit),
		},
		[]string{"segment", figures.AtLeast(25).Beside("%.2f M", figures.Median(s[1].perSecond)*batch/1e6), in("%.3f us", 1./batch, s[1].cpu), in("%.2f", 1, s[1].cores), ""})
}

// runRedis compares leafd with Redis' INCR without persistence, the usual other way to get
// numbers that don't repeat.
func runRedis(ctx context.Context, o options) (err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return fmt.Errorf("%w; `make deps-bench` installs it", err)
	}
	redis, err := start(serverCPU, path, func(address string) []string {
		return []string{"--bind", "127.0.0.1", "--port", address[strings.LastIndexByte(address, ':')+1:], "--save", "", "--appendonly", "no", "--dir", o.dir}
	})
	if err != nil {
		return err
	}
	defer func() { stopAll(&err, redis) }()
	redis.redis = redis.Address
	listening, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := redis.AwaitListening(listening); err != nil {
		return err
	}
	leafd, err := o.leafdServer(serverCPU, filepath.Join(o.dir, "redis"))
	if err != nil {
		return err
	}
	defer func() { stopAll(&err, leafd) }()
	if _, err := leafd.answers(ctx, snowflakePath); err != nil {
		return err
	}
	rows := [][]string{{"", "IDs/s", "server's CPU an ID", "x Redis", "server's CPU"}}
	measure := func(depth int, target figures.Target, ids float64, asks ...string) error {
		o.note("redis: %d deep, %.0f IDs each", depth, ids)
		loads := []load{{on: redis, ask: "INCR bench", depth: depth}}
		for _, ask := range asks {
			loads = append(loads, load{on: leafd, ask: ask, depth: depth})
		}
		s, err := o.loads(ctx, loads...)
		if err != nil {
			return err
		}
		for i, l := range loads {
			name, n, ratio := "leafd "+l.ask, ids, target
			if i == 0 && ids > 1 {
				continue // its row is there
			}
			if i == 0 {
				name, ratio = "Redis INCR", figures.Target{}
			}
			rows = append(rows, []string{
				fmt.Sprintf("%s, %d deep", name, depth), in("%.1f k", n/1e3, s[i].perSecond), in("%.3f us", 1/n, s[i].cpu),
				ratio.Beside("%.3f", figures.MedianRatio(s[i].cpu, s[0].cpu)/n), in("%.2f", 1, s[i].cores),
			})
		}
		return nil
	}
	one, many := []string{"INCR " + segmentTag, "LEAF.SNOWFLAKE x"}, []string{"LEAF.SNOWFLAKE x 1000", "LEAF.SEGMENT " + segmentTag + " 1000"}
	if err := measure(1, figures.AtMost(1), 1, one...); err != nil {
		return err
	}
	if err := measure(deep, figures.AtMost(0.6), 1, one...); err != nil {
		return err
	}
	if err := measure(1, figures.Target{}, batch, many...); err != nil {
		return err
	}
	return figures.Table(os.Stdout, fmt.Sprintf("Against Redis' INCR without persistence, %d connections", connections), rows...)
}

// runCost goes through numbers of clients.
func runCost(ctx context.Context, o options) (err error) {
	leafd, err := o.leafdServer(serverCPU, filepath.Join(o.dir, "cost"))
	if err != nil {
		return err
	}
	defer func() { stopAll(&err, leafd) }()
	if _, err := leafd.answers(ctx, snowflakePath); err != nil {
		return err
	}
	rows := [][]string{{"", "requests/s", "CPU a request", "p50", "p99", "resident"}}
	for _, clients := range []int{1, 10, 100, 1000, 10_000} {
		o.note("cost: %d clients", clients)
		s, err := o.loads(ctx, load{on: leafd, ask: snowflakePath, depth: 1, conns: clients})
		if err != nil {
			return err
		}
		rss, err := figures.RSS(leafd.Pid())
		if err != nil {
			return err
		}
		rows = append(rows, []string{
			fmt.Sprintf("%d clients", clients), in("%.1f k", 1e-3, s[0].perSecond), in("%.3f us", 1, s[0].cpu), in("%.2f ms", 1, s[0].p50), in("%.2f ms", 1, s[0].p99), fmt.Sprintf("%.1f MB", rss/1e6),
		})
	}
	return figures.Table(os.Stdout, "Cost against clients, one snowflake ID a request", rows...)
}
