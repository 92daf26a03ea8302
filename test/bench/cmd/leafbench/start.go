package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/leafd/leafd/test/bench/internal/figures"
	"github.com/leafd/leafd/test/bench/internal/proc"
	"github.com/leafd/leafd/test/bench/internal/wrk"
)

// starts is how many starts a figure is the median of, for each round asked
// for: a start is over in a moment.
const starts = 3

// startUp is one start of leafd, clean stop included.
type startUp struct {
	ready float64 // milliseconds from before exec to the first ID over HTTP
	rss   float64 // bytes resident then
}

func runStart(ctx context.Context, o options) error {
	if err := defaults(ctx, o); err != nil {
		return err
	}
	return manyTags(ctx, o)
}

// startOnce starts leafd on dir with all CPUs, takes an ID from path, and stops it.
func (o options) startOnce(ctx context.Context, dir, path string) (up startUp, err error) {
	s, err := o.leafdServer(anyCPU, dir)
	if err != nil {
		return up, err
	}
	defer stopAll(&err, s)
	ready, err := s.answers(ctx, path)
	if err != nil {
		return up, err
	}
	up.ready = float64(ready.Microseconds()) / 1000
	if up.rss, err = proc.RSS(s.Pid()); err != nil {
		return up, err
	}
	return up, nil
}

// line writes a start for benchstat.
func (up startUp) line(o options, name string) error {
	return o.lines.line(name, 1, "%.0f ns/op\t%.0f resident-bytes", up.ready*1e6, up.rss)
}

// defaults measures a start on embedded defaults.
func defaults(ctx context.Context, o options) error {
	o.note("start: embedded defaults")
	binary, err := os.Stat(o.leafd)
	if err != nil {
		return fmt.Errorf("%w; `make bench` builds it", err)
	}
	dir := filepath.Join(o.dir, "start")
	first, err := o.startOnce(ctx, dir, snowflakePath)
	if err != nil {
		return err
	}
	var ready, rss []float64
	for range starts * o.rounds {
		up, err := o.startOnce(ctx, dir, snowflakePath)
		if err != nil {
			return err
		}
		ready, rss = append(ready, up.ready), append(rss, up.rss)
		if err := up.line(o, "Start"); err != nil {
			return err
		}
	}
	return o.table("Start on embedded defaults, from before exec to the first ID over HTTP", [][]string{
		{"first start, empty data directory", fmt.Sprintf("%.1f ms", first.ready)},
		{"after a clean stop", figures.AtMost(100).Beside("%.1f ms", figures.Median(ready))},
		{"resident then", figures.AtMost(30).Beside("%.1f MB", figures.Median(rss)/1e6)},
		{"binary", mega(float64(binary.Size()))},
	})
}

// manyTags compares a table of one tag with one of o.tags.
func manyTags(ctx context.Context, o options) error {
	o.note("start: %d tags", o.tags)
	one, many := filepath.Join(o.dir, "one"), filepath.Join(o.dir, "many")
	for _, dir := range []string{one, many} {
		if _, err := o.startOnce(ctx, dir, segmentPath); err != nil { // makes the table
			return err
		}
	}
	if err := addTags(ctx, many, o.tags-1); err != nil {
		return err
	}
	var oneRSS, manyRSS, ready []float64
	for range starts * o.rounds {
		up, err := o.startOnce(ctx, one, segmentPath)
		if err != nil {
			return err
		}
		oneRSS = append(oneRSS, up.rss)
		if up, err = o.startOnce(ctx, many, "/api/segment/get/"+tagName(o.tags-1)); err != nil {
			return err
		}
		manyRSS, ready = append(manyRSS, up.rss), append(ready, up.ready)
		if err := up.line(o, fmt.Sprintf("Start/tags=%d", o.tags)); err != nil {
			return err
		}
	}
	perTag := (figures.Median(manyRSS) - figures.Median(oneRSS)) / float64(o.tags-1)
	err := o.table(fmt.Sprintf("%d tags in SQLite", o.tags), [][]string{
		{"start to the first ID of the last tag", figures.AtMost(2000).Beside("%.0f ms", figures.Median(ready))},
		{"resident then", mega(figures.Median(manyRSS))},
		{"resident with 1 tag", mega(figures.Median(oneRSS))},
		{"a tag that isn't used", figures.AtMost(400).Beside("%.0f bytes", perTag)},
	})
	if err != nil {
		return err
	}
	return tagsLatency(ctx, o, one, many)
}

// tagsLatency compares requests for a tag among one and among many.
func tagsLatency(ctx context.Context, o options, one, many string) (err error) {
	w, err := wrk.New(o.dir, o.clientCPU)
	if err != nil {
		return err
	}
	var servers []*server
	defer func() { stopAll(&err, servers...) }()
	for _, dir := range []string{many, one} {
		s, err := o.leafdServer(o.serverCPU, dir)
		if err != nil {
			return err
		}
		servers = append(servers, s)
		if _, err := s.answers(ctx, segmentPath); err != nil {
			return err
		}
	}
	o.note("start: latency with 1 and %d tags", o.tags)
	s, err := o.loads(ctx, w, load{name: "Tags/many", on: servers[0], path: segmentPath, depth: 1}, load{name: "Tags/one", on: servers[1], path: segmentPath, depth: 1})
	if err != nil {
		return err
	}
	return o.table(fmt.Sprintf("Requests for one ID, %d tags against 1", o.tags), [][]string{
		{"", fmt.Sprintf("%d tags", o.tags), "1 tag", "ratio"},
		{"median latency", micros(figures.Median(s[0].p50)), micros(figures.Median(s[1].p50)), fmt.Sprintf("%.3f", figures.MedianRatio(s[0].p50, s[1].p50))},
		{"CPU/request", micros(figures.Median(s[0].cpu)), micros(figures.Median(s[1].cpu)), figures.AtMost(1.05).Beside("%.3f", figures.MedianRatio(s[0].cpu, s[1].cpu))},
	})
}
