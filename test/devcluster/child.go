package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is a process of ours whose lines are printed with its name before them.
type child struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended, was reaped, and its lines are printed

	mu      sync.Mutex
	tail    []string // mu protects: the last lines
	told    bool     // mu protects: it was told to end
	outcome error    // mu protects: of Wait
}

// keepLines is how much of a child's lines is remembered.
const keepLines = 50

// startChild starts cmd. The system ties a child to the thread that started it
// (PR_SET_PDEATHSIG, prctl(2)), so a goroutine keeps that thread for as long as
// the child lives.
func startChild(cmd *exec.Cmd, out *lines, name string) (*child, error) {
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	cmd.SysProcAttr = dieWithParent()
	c := &child{name: name, cmd: cmd, done: make(chan struct{})}
	var printing sync.WaitGroup
	printing.Go(func() { c.follow(reader, out) })
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			err = cmd.Wait()
			c.mu.Lock()
			c.outcome = err
			c.mu.Unlock()
		}
		_ = writer.Close() // of a pipe: always nil
		printing.Wait()
		close(c.done)
	}()
	return c, <-started
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// follow prints the child's lines. It reads to the end whatever becomes of our
// own output: a child whose pipe is full would stand still.
func (c *child) follow(r io.Reader, out *lines) {
	buffered := bufio.NewReader(r)
	for {
		line, err := buffered.ReadString('\n')
		if line = strings.TrimRight(line, "\n"); line != "" {
			c.mu.Lock()
			c.tail = append(c.tail, line)
			c.tail = c.tail[max(0, len(c.tail)-keepLines):]
			c.mu.Unlock()
			out.write(c.name + " | " + line + "\n")
		}
		if err != nil {
			return
		}
	}
}

// sawLine tells whether a line with text was among the last.
func (c *child) sawLine(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.tail {
		if strings.Contains(line, text) {
			return true
		}
	}
	return false
}

// death says how it ended.
func (c *child) death() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	how := "exit status 0"
	if c.outcome != nil {
		how = c.outcome.Error()
	}
	return fmt.Errorf("%s (process %d) ended by itself: %s", c.name, c.cmd.Process.Pid, how)
}

// terminate tells it to end; one that has ended already is not told.
func (c *child) terminate() {
	select {
	case <-c.done:
	default:
		c.mu.Lock()
		c.told = true
		c.mu.Unlock()
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended just now
	}
}

// await waits for the end of a child that was told to, and kills it when that
// takes too long. An end that isn't clean is an error.
func (c *child) await(limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		_ = c.cmd.Process.Kill() // it may have ended just now
		<-c.done
		return fmt.Errorf("%s (process %d) did not stop within %s and was killed", c.name, c.pid(), limit)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told && c.outcome != nil && !diedOf(c.outcome, syscall.SIGTERM) {
		return fmt.Errorf("%s (process %d) did not stop cleanly: %w", c.name, c.pid(), c.outcome)
	}
	return nil
}

// diedOf tells whether a signal that we sent ended the process by itself: it takes its
// signals before it does anything, so it had not begun yet, and has nothing to leave
// clean.
func diedOf(outcome error, signal syscall.Signal) bool {
	var exit *exec.ExitError
	if !errors.As(outcome, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == signal
}

// lines is our output: several goroutines print whole lines to it.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func newLines(w io.Writer) *lines { return &lines{w: w} }

func (l *lines) write(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, text) // a closed terminal is no reason to leave processes behind
}

func (l *lines) say(format string, args ...any) {
	l.write("cluster: " + fmt.Sprintf(format, args...) + "\n")
}
