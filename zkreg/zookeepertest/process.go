package zookeepertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a child that dies with us.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and was reaped
}

// spawn starts cmd. The system ties a child to the thread that started it
// (PR_SET_PDEATHSIG, prctl(2)), so a goroutine keeps that thread for as long as
// the child lives.
func spawn(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = dieWithParent()
	p := &process{cmd: cmd, done: make(chan struct{})}
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
	return p, <-started
}

func (p *process) signal(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("zookeepertest: send %v to process %d: %w", signal, p.cmd.Process.Pid, err)
	}
	return nil
}

// end sends signal and waits; whoever doesn't heed it is killed.
func (p *process) end(signal syscall.Signal) error {
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
	case <-time.After(bootTimeout):
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return fmt.Errorf("zookeepertest: the server didn't end on %v and was killed", signal)
}
