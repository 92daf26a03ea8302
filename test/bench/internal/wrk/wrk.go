// Package wrk runs the load generator wrk on one CPU and reads its figures.
package wrk

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

//go:embed report.lua
var script []byte

// Connections is how many wrk keeps open.
const Connections = 64

// ErrRefused is returned when the server failed some of the requests: figures
// of a run like that compare nothing.
var ErrRefused = errors.New("wrk: requests failed")

// Client runs wrk.
type Client struct {
	cpu    int
	script string
}

// New returns a Client that pins wrk to cpu and keeps its script in dir.
func New(dir string, cpu int) (*Client, error) {
	for _, name := range []string{"wrk", "taskset"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, fmt.Errorf("%w; `make deps-bench` installs it", err)
		}
	}
	path := filepath.Join(dir, "report.lua")
	if err := os.WriteFile(path, script, 0o600); err != nil {
		return nil, fmt.Errorf("wrk: script: %w", err)
	}
	return &Client{cpu: cpu, script: path}, nil
}

// Result is one run. A pipelined run counts every response.
type Result struct {
	Requests float64
	Elapsed  time.Duration
	P50, P99 time.Duration // latency of a request, of a whole pipeline where it is deeper than one
}

// PerSecond is the number of requests answered per second.
func (r Result) PerSecond() float64 { return r.Requests / r.Elapsed.Seconds() }

// Run loads url for d with depth requests to a write, and these headers. It returns
// ErrRefused when any request failed.
func (c *Client) Run(ctx context.Context, url string, d time.Duration, depth int, headers ...string) (Result, error) {
	seconds := max(1, int(d.Round(time.Second)/time.Second))
	cmd := exec.CommandContext(ctx, "taskset", "-c", strconv.Itoa(c.cpu), "wrk",
		"-t1", "-c"+strconv.Itoa(Connections), fmt.Sprintf("-d%ds", seconds),
		"-s", c.script)
	for _, header := range headers {
		cmd.Args = append(cmd.Args, "-H", header)
	}
	cmd.Args = append(cmd.Args, url, "--", strconv.Itoa(depth))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return Result{}, fmt.Errorf("wrk %s: %w: %s", url, err, bytes.TrimSpace(out))
	}
	result, err := Parse(out)
	if err != nil {
		return Result{}, fmt.Errorf("wrk %s: %w", url, err)
	}
	return result, nil
}

// Parse finds the line that report.lua wrote.
func Parse(out []byte) (Result, error) {
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		figures, ok := bytes.CutPrefix(lines.Bytes(), []byte("leafbench "))
		if !ok {
			continue
		}
		var f struct {
			Requests, Micros, P50, P99            int64
			Connect, Read, Write, Timeout, Status int64
		}
		if err := json.Unmarshal(figures, &f); err != nil {
			return Result{}, fmt.Errorf("figures %q: %w", figures, err)
		}
		if f.Connect+f.Read+f.Write+f.Timeout+f.Status > 0 {
			return Result{}, fmt.Errorf("%w: of %d: %d connect, %d read, %d write, %d timeout, %d status",
				ErrRefused, f.Requests, f.Connect, f.Read, f.Write, f.Timeout, f.Status)
		}
		if f.Requests == 0 || f.Micros == 0 {
			return Result{}, fmt.Errorf("%w: none was answered", ErrRefused)
		}
		return Result{
			Requests: float64(f.Requests),
			Elapsed:  time.Duration(f.Micros) * time.Microsecond,
			P50:      time.Duration(f.P50) * time.Microsecond,
			P99:      time.Duration(f.P99) * time.Microsecond,
		}, nil
	}
	return Result{}, fmt.Errorf("no figures in its output: %s", bytes.TrimSpace(out))
}
