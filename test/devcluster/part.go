package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/leafd/leafd/test/proctest"
)

// part is a process of the cluster, and its successors on the same address and data.
type part struct {
	name, address string
	again         func() (*proctest.Process, error) // after its end
	daemon        bool
	process       *proctest.Process
	was           state
	wasReady      bool // the process, at any time
}

// state is what was seen of a process.
type state int

const (
	starting state = iota
	ready
	frozen
	ended
)

func (s state) String() string {
	return [...]string{"is not ready yet", "is ready", "is frozen", "has ended"}[s]
}

// look returns the present state. What was ready stays that until it is frozen or ends.
func (p *part) look(ctx context.Context) state {
	switch stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.process.Pid())); { // proc_pid_stat(5)
	case p.process.Ended():
		return ended
	case strings.Contains(string(stat), ") T "):
		return frozen
	case p.wasReady || !p.daemon || p.readyz(ctx):
		return ready
	default:
		return starting
	}
}

func (p *part) readyz(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/readyz", nil)
	if err != nil {
		return false
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	return err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusOK
}

// ending says how the process has ended.
func (p *part) ending() string {
	status := p.process.Status()
	if status.Signaled() {
		return fmt.Sprintf("exited by signal %d (%s)", status.Signal(), status.Signal())
	}
	return fmt.Sprintf("exited with status %d", status.ExitStatus())
}

// stop ends the process in order, a frozen one too.
func (p *part) stop() error {
	const limit = 20 * time.Second
	if p.process.Ended() {
		return nil
	}
	if err := p.process.Resume(); err != nil {
		return err
	}
	if err := p.process.EndWithin(syscall.SIGTERM, limit); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}
