// Package proctest runs the processes of servers that tests start for themselves:
// they die with the test, are paused and ended by their process id, and are
// shared by the tests of a package.
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
const Patience = 60 * time.Second

// Process is a child that dies with us. Its methods are for one goroutine at a
// time, but Pid and Done, which may be called at any time.
type Process struct {
	cmd    *exec.Cmd
	done   chan struct{} // closed when the process has ended and was reaped
	paused bool
}

// Start starts cmd. The system ties a child to the thread that started it
// (PR_SET_PDEATHSIG, prctl(2)), so a goroutine keeps that thread for as long as
// the child lives. What cmd.SysProcAttr has besides stays.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = dieWithParent(cmd.SysProcAttr)
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended, its log tells
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("proctest: %w", err)
	}
	return p, nil
}

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Paused tells whether Pause was called last, and not Resume.
func (p *Process) Paused() bool { return p.paused }

// Pause stops the process in place, and returns once it stands.
func (p *Process) Pause() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	p.paused = true
	return awaitStopped(p.Pid())
}

// Resume lets a paused process go on.
func (p *Process) Resume() error {
	if err := p.signal(syscall.SIGCONT); err != nil {
		return err
	}
	p.paused = false
	return nil
}

func (p *Process) signal(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("proctest: send %v to process %d: %w", signal, p.Pid(), err)
	}
	return nil
}

// End sends signal and waits; a paused process goes on first, and one that doesn't
// heed the signal within Patience is killed, which is an error.
func (p *Process) End(signal syscall.Signal) error {
	if p.paused && signal != syscall.SIGKILL {
		if err := p.Resume(); err != nil {
			return err
		}
	}
	select {
	case <-p.done: // by itself
		return nil
	default:
	}
	if err := p.signal(signal); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(Patience):
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return fmt.Errorf("proctest: process %d (%s) didn't end on %v and was killed", p.Pid(), p.cmd.Path, signal)
}

// Tail returns the last few kilobytes of a file, for a log to be shown; or why it
// can't be read.
func Tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const most = 4 << 10
	return string(text[max(0, len(text)-most):])
}
