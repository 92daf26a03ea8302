package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/leafd/leafd/test/bench/internal/wrk"
)

// leafdBench runs leafd bench on the client's CPU.
func (o options) leafdBench(ctx context.Context, l load, d time.Duration) (wrk.Result, error) {
	cmd := exec.CommandContext(ctx, "taskset", "-c", strconv.Itoa(o.clientCPU), o.leafd, "bench", "--check-unique=false", "-o", "json",
		"--url", l.on.URL, "--clients", strconv.Itoa(l.clients), "--duration", d.String())
	cmd.Env = append(cmd.Environ(), "GOMAXPROCS=1")
	var says strings.Builder
	cmd.Stderr = &says
	out, err := cmd.Output()
	if err != nil {
		return wrk.Result{}, fmt.Errorf("leafd bench of %s: %w: %s", l.on.URL, err, strings.TrimSpace(says.String()))
	}
	return parseLeafdBench(out)
}

// parseLeafdBench reads what leafd bench -o json prints.
func parseLeafdBench(out []byte) (wrk.Result, error) {
	var f struct {
		Answered, Failed int64
		Elapsed          time.Duration                    `json:"elapsed_ns"`
		Latency          struct{ P50, P99 time.Duration } `json:"latency_ns"`
	}
	if err := json.Unmarshal(out, &f); err != nil {
		return wrk.Result{}, fmt.Errorf("figures of leafd bench: %w", err)
	}
	if f.Failed > 0 || f.Answered == 0 || f.Elapsed <= 0 {
		return wrk.Result{}, fmt.Errorf("%w: %d of leafd bench, and %d were answered", wrk.ErrRefused, f.Failed, f.Answered)
	}
	return wrk.Result{Requests: float64(f.Answered), Elapsed: f.Elapsed, P50: f.Latency.P50, P99: f.Latency.P99}, nil
}
