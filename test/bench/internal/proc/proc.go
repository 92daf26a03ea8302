// Package proc reads from /proc what a process costs. It works on Linux only.
package proc

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the time that all threads of a process have run for so far, those that have ended
// too, by the process's clock of CPU time (clock_getcpuclockid).
func CPU(pid int) (time.Duration, error) {
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &at); err != nil { //nolint:gosec // pids have 22 bits
		return 0, fmt.Errorf("proc: CPU time of process %d: %w: has it ended?", pid, err)
	}
	return time.Duration(at.Nano()), nil
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
