package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// machine says what was measured, on what, and how.
func machine(ctx context.Context, o options) string {
	parts := []string{
		"leafd benchmarks of " + time.Now().UTC().Format(time.DateOnly), runtime.Version(),
		fmt.Sprintf("%d CPUs (%s)", runtime.NumCPU(), processor()), firstLine(ctx, "uname", "-sr"),
		firstLine(ctx, o.redis, "--version"), firstLine(ctx, "wrk", "-v"),
		fmt.Sprintf("medians of %d rounds of %d s", o.rounds, o.seconds),
	}
	var known []string
	for _, p := range parts {
		if p != "" {
			known = append(known, p)
		}
	}
	return strings.Join(known, "; ") + "." + busy()
}

// busy is a warning where others use the machine's CPUs too, and "" where not.
func busy() string {
	loadavg, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	var minute float64
	if n, err := fmt.Sscan(string(loadavg), &minute); n != 1 || err != nil || minute < 0.5 {
		return ""
	}
	return fmt.Sprintf("\nThe machine is in use (load average %.1f): on an idle one the figures are better and steadier.", minute)
}

// processor is the CPU's name.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, found := strings.CutPrefix(line, "model name"); found {
			return strings.Trim(name, "\t :\n")
		}
	}
	return runtime.GOARCH
}

// firstLine is what a program says of itself, without its build; "" where it
// isn't there. (wrk exits with 1 after telling its version.)
func firstLine(ctx context.Context, name string, args ...string) string {
	out, _ := exec.CommandContext(ctx, name, args...).CombinedOutput() // what it printed counts
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	line, _, _ = strings.Cut(line, " [") // what it was built with
	line, _, _ = strings.Cut(line, " sha=")
	return line
}
