package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/leafd/leafd/test/proctest"
)

const (
	// pollEvery is how often the parts are asked whether they answer.
	pollEvery = 200 * time.Millisecond
	// answersWithin is for a machine under load; what takes longer is said, and no more.
	answersWithin = 3 * time.Second
)

// part is a process of the cluster, and its successors on the same address and data. The
// goroutine of cluster.run alone changes it.
type part struct {
	name, address string
	start         func() (*proctest.Process, error)                   // again, after its end
	end           func(limit time.Duration) error                     // of a process that runs, in order
	probe         func(ctx context.Context) (isReady bool, err error) // an error: it doesn't answer
	lostPort      func() bool                                         // a free port was taken by another program
	process       *proctest.Process
	state         state
	wasReady      bool // at any time
	unwatch       context.CancelFunc
}

// state is what was seen of a process.
type state int

const (
	starting state = iota
	ready
	frozen
	silent
	ended
)

func (s state) String() string {
	return [...]string{"is not ready yet", "is ready", "is frozen", "answers no more", "has ended"}[s]
}

// event is a new state of a process.
type event struct {
	part    *part
	process *proctest.Process
	state   state
}

// watch tells of each new state of a process, until its end.
func (p *part) watch(ctx context.Context, process *proctest.Process, tell func(event)) {
	was, wasReady := starting, false
	for was != ended {
		now := p.look(ctx, process, was, wasReady)
		if ctx.Err() != nil {
			return
		}
		if now != was {
			tell(event{p, process, now})
		}
		was, wasReady = now, wasReady || now == ready
		select {
		case <-process.Done():
		case <-ctx.Done():
		case <-time.After(pollEvery):
		}
	}
}

// look returns the present state. What was not ready yet may take its time over its first
// answer; what was stays ready while it answers at all.
func (p *part) look(ctx context.Context, process *proctest.Process, was state, wasReady bool) state {
	var isReady bool
	var err error
	if !process.Ended() && !stopped(process.Pid()) {
		ctx, cancel := context.WithTimeout(ctx, answersWithin)
		defer cancel()
		isReady, err = p.probe(ctx)
	}
	switch {
	case process.Ended():
		return ended
	case stopped(process.Pid()):
		return frozen
	case !wasReady && (err != nil || !isReady):
		return starting
	case errors.Is(err, syscall.ECONNREFUSED):
		return was // it was not reaped yet
	case err != nil:
		return silent
	default:
		return ready
	}
}

// stopped tells whether a process was stopped by a signal (proc_pid_stat(5)); where there
// is no /proc nothing seems to be.
func stopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") T ")
}

// ending says how a process has ended.
func ending(process *proctest.Process) string {
	status := process.Status()
	if status.Signaled() {
		return fmt.Sprintf("exited by signal %d (%s)", status.Signal(), status.Signal())
	}
	return fmt.Sprintf("exited with status %d", status.ExitStatus())
}

// stop ends the process in order, a frozen one too.
func (p *part) stop(limit time.Duration) error {
	if p.process.Ended() {
		return nil
	}
	if err := p.process.Resume(); err != nil {
		return err
	}
	if err := p.end(limit); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}
