package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver of leafd's default store

	"github.com/leafd/leafd/test/bench/internal/figures"
)

const (
	// tags is how many the large table has, and lastTag the last of them.
	tags    = 100_000
	lastTag = "/api/segment/get/bench-0099999"
	// starts is how many starts a figure is the median of, for each round asked for: a start is
	// over in a moment.
	starts = 3
)

// startUps are starts of leafd, clean stops included.
type startUps struct {
	ready []float64 // milliseconds from before exec to the first ID over HTTP
	rss   []float64 // MB resident then: 10^6 bytes
}

// add starts leafd on dir with all CPUs, takes an ID from path, and stops it.
func (s *startUps) add(ctx context.Context, o options, dir, path string) (err error) {
	leafd, err := o.leafdServer(anyCPU, dir)
	if err != nil {
		return err
	}
	defer stopAll(&err, leafd)
	ready, err := leafd.answers(ctx, path)
	if err != nil {
		return err
	}
	rss, err := figures.RSS(leafd.Pid())
	s.ready, s.rss = append(s.ready, ready.Seconds()*1e3), append(s.rss, rss/1e6)
	return err
}

// runStart measures starts on embedded defaults, and compares a table of one tag with one of many.
func runStart(ctx context.Context, o options) error {
	one, many := filepath.Join(o.dir, "one"), filepath.Join(o.dir, "many")
	var first, again, full startUps
	for _, dir := range []string{one, many} {
		if err := first.add(ctx, o, dir, segmentPath); err != nil {
			return err
		}
	}
	if err := addTags(ctx, many); err != nil {
		return err
	}
	o.note("start: with 1 tag and %d", tags)
	for range starts * o.rounds {
		if err := errors.Join(again.add(ctx, o, one, segmentPath), full.add(ctx, o, many, lastTag)); err != nil {
			return err
		}
	}
	binary, err := os.Stat(o.leafd)
	if err != nil {
		return err
	}
	err = figures.Table(os.Stdout, "Start on embedded defaults, from before exec to the first ID over HTTP", []string{"", ""},
		[]string{"first start, empty data directory", in("%.1f ms", 1, first.ready)},
		[]string{"after a clean stop", figures.AtMost(100).Beside("%.1f ms", figures.Median(again.ready))},
		[]string{"resident then", figures.AtMost(30).Beside("%.1f MB", figures.Median(again.rss))},
		[]string{"binary", fmt.Sprintf("%.1f MB", float64(binary.Size())/1e6)},
		[]string{"100,000 tags: start to the first ID of the last", figures.AtMost(2000).Beside("%.0f ms", figures.Median(full.ready))},
		[]string{"100,000 tags: resident then", in("%.1f MB", 1, full.rss)})
	if err != nil {
		return err
	}
	return tagsLatency(ctx, o, one, many)
}

// tagsLatency compares requests for a tag among one and among many.
func tagsLatency(ctx context.Context, o options, one, many string) (err error) {
	var servers [2]*server
	defer func() { stopAll(&err, servers[:]...) }()
	for i, dir := range []string{many, one} {
		if servers[i], err = o.leafdServer(serverCPU, dir); err != nil {
			return err
		}
		if _, err := servers[i].answers(ctx, segmentPath); err != nil {
			return err
		}
	}
	o.note("start: latency with 1 tag and %d", tags)
	s, err := o.loads(ctx, load{on: servers[0], ask: segmentPath, depth: 1}, load{on: servers[1], ask: segmentPath, depth: 1})
	if err != nil {
		return err
	}
	return figures.Table(os.Stdout, "Requests for one ID, 100,000 tags against 1", []string{"", "100,000 tags", "1 tag", "ratio"},
		[]string{"median latency", in("%.3f ms", 1, s[0].p50), in("%.3f ms", 1, s[1].p50), fmt.Sprintf("%.3f", figures.MedianRatio(s[0].p50, s[1].p50))},
		[]string{"CPU/request", in("%.3f us", 1, s[0].cpu), in("%.3f us", 1, s[1].cpu), figures.AtMost(1.05).Beside("%.3f", figures.MedianRatio(s[0].cpu, s[1].cpu))})
}

// addTags fills dir's table with copies of the default tag under other names. leafd must not be
// running there.
func addTags(ctx context.Context, dir string) (err error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "segments.db")+"?mode=rw")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.ExecContext(ctx, `
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO leaf_alloc (biz_tag, max_id, step, description, update_time)
		SELECT printf('bench-%07d', i), 1, step, description, update_time
		FROM n, leaf_alloc WHERE biz_tag = 'leaf-segment-test'`, tags-1)
	return err
}
