package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/leafd/leafd/test/bench/internal/figures"
	"github.com/leafd/leafd/test/bench/internal/proc"
	"github.com/leafd/leafd/test/bench/internal/wrk"
)

const (
	pipelineDepth = 16
	batch         = 1000
	// layoutLimit is what 12 bits of sequence allow: 4096 IDs a millisecond.
	layoutLimit = 4096 * 1000
)

func runHTTP(ctx context.Context, o options) (err error) {
	w, err := wrk.New(o.dir, o.clientCPU)
	if err != nil {
		return err
	}
	var servers []*server
	defer func() { stopAll(&err, servers...) }()
	for range 2 {
		bare, err := o.bareServer()
		if err != nil {
			return err
		}
		servers = append(servers, bare)
	}
	leafd, err := o.leafdServer(o.serverCPU, filepath.Join(o.dir, "http"))
	if err != nil {
		return err
	}
	servers = append(servers, leafd)
	for _, s := range servers {
		if _, err := s.answers(ctx, snowflakePath); err != nil {
			return err
		}
	}
	if err := singles(ctx, o, w, leafd, servers[0], servers[1]); err != nil {
		return err
	}
	if err := tokens(ctx, o, w, leafd); err != nil {
		return err
	}
	if err := batches(ctx, o, w, leafd); err != nil {
		return err
	}
	rss, err := proc.RSS(leafd.Pid())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.out, "  resident after all of it: %s\n", mega(rss))
	return err
}

// singles compares requests for one ID with the bare server's constant.
func singles(ctx context.Context, o options, w *wrk.Client, leafd, bare, bare2 *server) error {
	rows := [][]string{{"", "leafd req/s", "bare req/s", "ratio", "leafd CPU/req", "bare CPU/req", "ratio"}}
	for _, c := range []struct {
		name, bench    string
		on             *server
		path           string
		depth          int
		perSecond, cpu figures.Target
	}{
		{"A/A: bare against itself", "HTTP/AA", bare2, snowflakePath, 1, figures.Target{}, figures.Target{}},
		{"snowflake, one ID", "HTTP/snowflake", leafd, snowflakePath, 1, figures.AtLeast(0.97), figures.AtMost(1.05)},
		{"segment, one ID", "HTTP/segment", leafd, segmentPath, 1, figures.AtLeast(0.97), figures.AtMost(1.05)},
		{"A/A, 16 deep", "HTTP/AA/deep=16", bare2, snowflakePath, pipelineDepth, figures.Target{}, figures.Target{}},
		{"snowflake, 16 deep", "HTTP/snowflake/deep=16", leafd, snowflakePath, pipelineDepth, figures.AtLeast(0.95), figures.Target{}},
		{"segment, 16 deep", "HTTP/segment/deep=16", leafd, segmentPath, pipelineDepth, figures.AtLeast(0.95), figures.Target{}},
	} {
		o.note("http: %s", c.name)
		s, err := o.loads(ctx, w, load{name: c.bench, on: c.on, path: c.path, depth: c.depth}, load{name: c.bench + "/bare", on: bare, path: c.path, depth: c.depth})
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		rows = append(rows, compared(c.name, s[0], s[1], c.perSecond, c.cpu))
	}
	return o.table(fmt.Sprintf("HTTP, server on one CPU, wrk on another, %d connections; ratios are medians of alternating pairs", wrk.Connections), rows)
}

// tokens compares requests for one ID with and without the tokens of callers.
func tokens(ctx context.Context, o options, w *wrk.Client, leafd *server) (err error) {
	token := strings.Repeat("5f1c0a7d", 6)
	sum := sha256.Sum256([]byte(token))
	file := filepath.Join(o.dir, "tokens.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "- {name: bench, sha256: %x, ids: \"x,%s\"}\n", sum, segmentTag), 0o600); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	guarded, err := o.leafdServer(o.serverCPU, filepath.Join(o.dir, "tokens"), "--tokens-file", file)
	if err != nil {
		return err
	}
	defer func() { stopAll(&err, guarded) }()
	if _, err := guarded.answers(ctx, "/readyz"); err != nil {
		return err
	}
	rows := [][]string{{"", "with req/s", "without req/s", "ratio", "with CPU/req", "without CPU/req", "ratio"}}
	for _, c := range []struct {
		name, bench, path string
		depth             int
		cpu               figures.Target
	}{
		{"snowflake, one ID", "HTTP/token/snowflake", snowflakePath, 1, figures.AtMost(1.05)},
		{"segment, one ID", "HTTP/token/segment", segmentPath, 1, figures.AtMost(1.05)},
		{"snowflake, 16 deep", "HTTP/token/snowflake/deep=16", snowflakePath, pipelineDepth, figures.Target{}},
	} {
		o.note("http: %s, with a token", c.name)
		s, err := o.loads(ctx, w, load{name: c.bench, on: guarded, path: c.path, depth: c.depth, headers: []string{"Authorization: Bearer " + token}},
			load{name: c.bench + "/none", on: leafd, path: c.path, depth: c.depth})
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		rows = append(rows, compared(c.name, s[0], s[1], figures.Target{}, c.cpu))
	}
	return o.table("HTTP with the tokens of callers, against the same without", rows)
}

// batches measures requests for many IDs; a bare server has no like of it.
func batches(ctx context.Context, o options, w *wrk.Client, leafd *server) error {
	rows := [][]string{{"", "IDs/s", "server's CPU", "of the layout's 4,096,000/s"}}
	for _, c := range []struct {
		name, bench, path string
		ids, cores        figures.Target
		ofLimit           figures.Target
		limited           bool
	}{
		{"snowflake, n=1000", "HTTP/snowflake/n=1000", snowflakePath, figures.Target{}, figures.AtMost(0.40), figures.AtLeast(0.98), true},
		{"segment, n=1000", "HTTP/segment/n=1000", segmentPath, figures.AtLeast(25), figures.Target{}, figures.Target{}, false},
	} {
		o.note("http: %s", c.name)
		path := fmt.Sprintf("%s?n=%d", c.path, batch)
		body, err := leafd.get(ctx, path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if lines := len(strings.Fields(body)); lines != batch {
			return fmt.Errorf("%s: %d IDs, want %d", path, lines, batch)
		}
		s, err := o.loads(ctx, w, load{name: c.bench, on: leafd, path: path, depth: 1, ids: batch})
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		ids := figures.Median(s[0].perSecond) * batch
		share := ""
		if c.limited {
			share = c.ofLimit.Beside("%.3f", ids/layoutLimit)
		}
		rows = append(rows, []string{c.name, c.ids.Beside("%.2f M", ids/1e6), c.cores.Beside("%.2f", figures.Median(s[0].cores)), share})
	}
	return o.table("Batches", rows)
}
