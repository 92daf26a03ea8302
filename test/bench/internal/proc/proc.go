// Package proc runs a server as a process of its own and reads from /proc what
// it costs. It works on Linux only.
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopWithin is how long a server gets to stop before it is killed.
const stopWithin = 15 * time.Second

// Config is a command to run.
type Config struct {
	// CPU is the one the process is pinned to, with GOMAXPROCS=1; -1 leaves
	// it all of them.
	CPU  int
	Args []string
}

// Process is a running server.
type Process struct {
	cmd     *exec.Cmd
	output  *bytes.Buffer
	exited  chan struct{} // closed once the process has ended
	exitErr error         // valid once exited is closed
	// Started is the moment just before the process was made.
	Started time.Time
}

// Start runs the command. It is killed when ctx ends.
func Start(ctx context.Context, cfg Config) (*Process, error) {
	args, env := cfg.Args, os.Environ()
	if cfg.CPU >= 0 {
		// taskset replaces itself by the server: one process, one pid.
		args = append([]string{"taskset", "-c", strconv.Itoa(cfg.CPU)}, args...)
		env = append(env, "GOMAXPROCS=1")
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	p := &Process{cmd: cmd, output: new(bytes.Buffer), exited: make(chan struct{})}
	cmd.Env, cmd.Stdout, cmd.Stderr = env, p.output, p.output
	p.Started = time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("proc: start %s: %w", args[0], err)
	}
	go func() {
		defer close(p.exited)
		p.exitErr = cmd.Wait()
	}()
	return p, nil
}

// Exited is closed once the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Failure tells how the process ended and what it printed; it waits for the end.
func (p *Process) Failure() error {
	<-p.exited
	err := p.exitErr
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("proc: %s ended: %w: %s", strings.Join(p.cmd.Args, " "), err, bytes.TrimSpace(p.output.Bytes()))
}

// Stop asks the process to end and waits for it. An unclean end is an error.
func (p *Process) Stop() error {
	err := p.cmd.Process.Signal(syscall.SIGTERM)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("proc: stop: %w", err)
	}
	select {
	case <-p.exited:
	case <-time.After(stopWithin):
		_ = p.cmd.Process.Kill() // it may have ended just now, which is as good
		<-p.exited
		return fmt.Errorf("proc: %s had to be killed, %s after SIGTERM", strings.Join(p.cmd.Args, " "), stopWithin)
	}
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); p.exitErr != nil && (!ok || status.Signal() != syscall.SIGTERM) {
		return p.Failure()
	}
	return nil
}

// CPU is the time that all threads of the process have run for so far, as the
// scheduler counted it, in nanoseconds (/proc/PID/task/TID/schedstat).
func (p *Process) CPU() (time.Duration, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("proc: %w", err)
	}
	if len(files) == 0 {
		return 0, fmt.Errorf("proc: no schedstat of process %d: has it ended?", p.cmd.Process.Pid)
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

// RSS is the memory that is resident, in bytes.
func (p *Process) RSS() (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
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

// FreeAddr returns an address of this machine that nobody listens on.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // done at once
	if err != nil {
		return "", fmt.Errorf("proc: free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
