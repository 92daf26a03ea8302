// Package proc reads from /proc what a process costs. It works on Linux only.
package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPU is the time that all threads of a process have run for so far, as the
// scheduler counted it, in nanoseconds (/proc/PID/task/TID/schedstat).
func CPU(pid int) (time.Duration, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, fmt.Errorf("proc: %w", err)
	}
	if len(files) == 0 {
		return 0, fmt.Errorf("proc: no schedstat of process %d: has it ended?", pid)
	}
	var total time.Duration
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			return 0, fmt.Errorf("proc: %w", err)
		}
		running, _, _ := strings.Cut(string(stat), " ")
		ns, err := strconv.ParseInt(running, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("proc: %s: %w", file, err)
		}
		total += time.Duration(ns)
	}
	return total, nil
}

// RSS is the memory of a process that is resident, in bytes.
func RSS(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("proc: %w", err)
	}
	return parseRSS(string(status))
}

func parseRSS(status string) (float64, error) {
	for line := range strings.Lines(status) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kilobytes); n == 1 {
			return float64(kilobytes) * 1024, nil
		}
	}
	return 0, errors.New("proc: no VmRSS in the process's status")
}
