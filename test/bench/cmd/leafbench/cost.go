package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/leafd/leafd/test/bench/internal/figures"
	"github.com/leafd/leafd/test/bench/internal/proc"
	"github.com/leafd/leafd/test/bench/internal/wrk"
)

// costRounds bounds the rounds of the tables that show a course, not a ratio.
const costRounds = 3

// runCost measures how the cost of an ID goes with clients, batch size and tags.
func runCost(ctx context.Context, o options) error {
	o.rounds = min(o.rounds, costRounds)
	w, err := wrk.New(o.dir, o.clientCPU)
	if err != nil {
		return err
	}
	if err := o.byLoad(ctx, w); err != nil {
		return err
	}
	return o.byTags(ctx, w)
}

// byLoad goes through numbers of clients and of IDs a request.
func (o options) byLoad(ctx context.Context, w *wrk.Client) (err error) {
	leafd, err := o.leafdServer(o.serverCPU, filepath.Join(o.dir, "cost"))
	if err != nil {
		return err
	}
	defer func() { stopAll(&err, leafd) }()
	if _, err := leafd.answers(ctx, snowflakePath); err != nil {
		return err
	}
	rows := [][]string{{"", "requests/s", "CPU a request", "p50", "p99", "resident"}}
	// leafd bench connects before it begins to count: wrk takes whole seconds of the
	// round for ten thousand.
	for _, clients := range []int{1, 10, 100, 1000, 10_000} {
		o.note("cost: %d clients", clients)
		s, err := o.loads(ctx, w, load{name: fmt.Sprintf("Cost/clients=%d", clients), on: leafd, clients: clients})
		if err != nil {
			return err
		}
		rss, err := proc.RSS(leafd.Pid())
		if err != nil {
			return err
		}
		rows = append(rows, []string{
			fmt.Sprintf("%d clients", clients), kilo(figures.Median(s[0].perSecond)), micros(figures.Median(s[0].cpu)),
			millis(figures.Median(s[0].p50)), millis(figures.Median(s[0].p99)), mega(rss),
		})
	}
	if err := o.table("Cost against clients, one snowflake ID a request", rows); err != nil {
		return err
	}

	rows = [][]string{{"", "snowflake IDs/s", "CPU an ID", "p99", "segment IDs/s", "CPU an ID", "p99"}}
	for _, n := range []int{1, 10, 100, 1000, 10_000} {
		o.note("cost: batches of %d", n)
		row := []string{fmt.Sprintf("n=%d", n)}
		for name, path := range ordered("snowflake", snowflakePath, "segment", segmentPath) {
			if n > 1 {
				path = fmt.Sprintf("%s?n=%d", path, n)
			}
			s, err := o.loads(ctx, w, load{name: fmt.Sprintf("Cost/%s/n=%d", name, n), on: leafd, path: path, depth: 1, ids: n})
			if err != nil {
				return err
			}
			row = append(row, fmt.Sprintf("%.3f M", figures.Median(s[0].perSecond)*float64(n)/1e6),
				fmt.Sprintf("%.1f ns", figures.Median(s[0].cpu)*1e3/float64(n)), millis(figures.Median(s[0].p99)))
		}
		rows = append(rows, row)
	}
	return o.table(fmt.Sprintf("Cost against batch size, %d clients", wrk.Connections), rows)
}

// byTags goes through sizes of the table.
func (o options) byTags(ctx context.Context, w *wrk.Client) error {
	rows := [][]string{{"", "requests/s", "CPU a request", "p99", "start to the first ID", "resident then"}}
	for _, tags := range []int{1, 100, 10_000, 100_000} {
		if tags > o.tags {
			break
		}
		row, err := o.withTags(ctx, w, tags)
		if err != nil {
			return fmt.Errorf("%d tags: %w", tags, err)
		}
		rows = append(rows, row)
	}
	return o.table("Cost against tags in SQLite, one of them asked for one ID a request", rows)
}

func (o options) withTags(ctx context.Context, w *wrk.Client, tags int) (_ []string, err error) {
	o.note("cost: %d tags", tags)
	dir, path := filepath.Join(o.dir, fmt.Sprintf("tags%d", tags)), segmentPath
	if _, err := o.startOnce(ctx, dir, segmentPath); err != nil { // makes the table
		return nil, err
	}
	if tags > 1 {
		if err := addTags(ctx, dir, tags-1); err != nil {
			return nil, err
		}
		path = "/api/segment/get/" + tagName(tags-1)
	}
	var ready, rss []float64
	for range o.rounds {
		up, err := o.startOnce(ctx, dir, path)
		if err != nil {
			return nil, err
		}
		ready, rss = append(ready, up.ready), append(rss, up.rss)
	}
	leafd, err := o.leafdServer(o.serverCPU, dir)
	if err != nil {
		return nil, err
	}
	defer func() { stopAll(&err, leafd) }()
	if _, err := leafd.answers(ctx, path); err != nil {
		return nil, err
	}
	s, err := o.loads(ctx, w, load{name: fmt.Sprintf("Cost/tags=%d", tags), on: leafd, path: path, depth: 1})
	if err != nil {
		return nil, err
	}
	return []string{
		fmt.Sprintf("%d tags", tags), kilo(figures.Median(s[0].perSecond)), micros(figures.Median(s[0].cpu)), millis(figures.Median(s[0].p99)),
		fmt.Sprintf("%.1f ms", figures.Median(ready)), mega(figures.Median(rss)),
	}, nil
}

// ordered goes through pairs of a name and a path.
func ordered(pairs ...string) func(yield func(name, path string) bool) {
	return func(yield func(name, path string) bool) {
		for i := 0; i+1 < len(pairs); i += 2 {
			if !yield(pairs[i], pairs[i+1]) {
				return
			}
		}
	}
}

// millis is a time in microseconds, in milliseconds for people.
func millis(us float64) string { return fmt.Sprintf("%.2f ms", us/1e3) }
