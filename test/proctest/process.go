// Package proctest is the one place that starts daemons and servers for tests and rigs:
// they die with the program that started them, are paused and ended by their process
// ID, and may be shared by the tests of a package.
package proctest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Patience bounds every wait for a process. It is for a machine under load: only
// a broken program reaches it.
const Patience = 3 * time.Minute

// Process is a child that dies with us. Its methods are for one goroutine at a
// time, but Pid, Done, Ended and Signal, which may be called at any time.
type Process struct {
	cmd    *exec.Cmd
	done   chan struct{} // closed when the process has ended and was reaped
	err    error         // of the end; valid once done is closed
	paused bool
}

// Start starts cmd. The system ties a child to the thread that started it
// (PR_SET_PDEATHSIG, prctl(2)), so a goroutine keeps that thread for as long as
// the child lives. What cmd.SysProcAttr has besides stays.
func Start(cmd *exec.Cmd) (*Process, error) {
	read := make(chan struct{})
	close(read)
	return start(cmd, read)
}

// start is Start of a process that counts as ended once read is closed, too.
func start(cmd *exec.Cmd, read <-chan struct{}) (*Process, error) {
	cmd.SysProcAttr = dieWithParent(cmd.SysProcAttr)
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			<-read
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("proctest: %w", err)
	}
	return p, nil
}

// Pid returns the process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended tells whether the process has ended and was reaped.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// ExitCode waits for the process's end; -1 stands for a signal that ended it.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Status waits for the process's end, and says how it ended.
func (p *Process) Status() syscall.WaitStatus {
	<-p.done
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status
}

// Paused tells whether Pause was called last, and not Resume.
func (p *Process) Paused() bool { return p.paused }

// Pause stops the process in place, and returns once it stands.
func (p *Process) Pause() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	p.paused = true
	return awaitStopped(p.Pid())
}

// Resume lets a paused process go on.
func (p *Process) Resume() error {
	if err := p.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	p.paused = false
	return nil
}

// Signal sends a signal; one that comes after the process's end is no error.
func (p *Process) Signal(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("proctest: send %v to process %d: %w", signal, p.Pid(), err)
	}
	return nil
}

// End is EndWithin Patience.
func (p *Process) End(signal syscall.Signal) error { return p.EndWithin(signal, Patience) }

// EndWithin sends signal and waits; a paused process is resumed first, and one that
// doesn't heed the signal within limit is killed, which is an error.
func (p *Process) EndWithin(signal syscall.Signal, limit time.Duration) error {
	if p.Ended() {
		return nil
	}
	if p.paused && signal != syscall.SIGKILL {
		if err := p.Resume(); err != nil {
			return err
		}
	}
	if err := p.Signal(signal); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(limit):
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return fmt.Errorf("proctest: process %d (%s) did not stop within %s and was killed", p.Pid(), p.cmd.Path, limit)
}

// Tail returns the last few kilobytes of a file, for a log to be shown; or why it
// can't be read.
func Tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return tail(string(text))
}

func tail(text string) string {
	const most = 4 << 10
	return text[max(0, len(text)-most):]
}
