package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leafd/leafd/test/proctest"
)

// pods are real daemons, each with a data directory of its own.
type pods struct {
	r    *rig
	root string
	dir  string // holds all data directories
	n    int
	// program is leafd's path.
	program string
}

// pods returns n of them that were there already, and gave their worker IDs back as they were
// stopped.
func (r *rig) pods(program, dir string, n int) *pods {
	r.t.Helper()
	s := r.settling(maxSize) // of the default layout
	p := &pods{r: r, root: s.root, dir: dir, n: n, program: program}
	_, all := p.start("first start", "first")
	p.stop(all)
	return p
}

// starts tries them at once: in new directories, as of pods with storage that doesn't survive,
// and in the same.
func (p *pods) starts() []row {
	p.r.t.Helper()
	var rows []row
	for _, step := range []string{"processes, new directories", "processes, the same directories"} {
		got, all := p.start(step, "second")
		p.stop(all)
		rows = append(rows, got)
	}
	return rows
}

// start starts all at once in the directories of that name, and returns once all are ready.
func (p *pods) start(step, name string) (row, []*proctest.Daemon) {
	p.r.t.Helper()
	p.r.note("%s: %d at once", step, p.n)
	all := make([]*proctest.Daemon, p.n)
	errs, ready := make([]error, p.n), make([]time.Time, p.n)
	began := time.Now()
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() {
			if all[i], errs[i] = p.pod(filepath.Join(p.dir, fmt.Sprintf("%s-%d", name, i))); errs[i] == nil {
				errs[i] = awaitReady(p.r.t.Context(), all[i])
				ready[i] = time.Now()
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		for _, d := range all {
			if d != nil {
				_ = d.End(syscall.SIGKILL) // there is an error already
			}
		}
		p.r.t.Fatalf("%s: %v", step, err)
	}
	got := row{step: step, n: p.n}
	settled := time.Time{}
	for i, d := range all {
		got.took = max(got.took, ready[i].Sub(began))
		if at := settledAt(d.Log()); at.After(settled) {
			settled = at
		}
	}
	if !settled.IsZero() {
		got.says = fmt.Sprintf("the last had settled after %.1f s, all are ready %.1f s later", settled.Sub(began).Seconds(), began.Add(got.took).Sub(settled).Seconds())
	}
	return got, all
}

// pod starts one, on a port that was free.
func (p *pods) pod(dir string) (*proctest.Daemon, error) {
	address, err := proctest.FreeAddress()
	if err != nil {
		return nil, err
	}
	return proctest.StartDaemon(proctest.Config{
		Command: []string{
			p.program, "serve", "--listen", address, "--data-dir", dir,
			"--zk", p.r.server.Addr(), "--zk-root", p.root, "--release-on-stop",
		},
		Address: address,
	})
}

// awaitReady asks seldom: a hundred that ask all the time would be most of the load.
func awaitReady(ctx context.Context, d *proctest.Daemon) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return d.Await(ctx, 200*time.Millisecond, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL+"/readyz", nil)
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
			return errors.Join(err, errors.New(res.Status))
		}
		return nil
	})
}

// notUsedFor is how long a claim settles, as a daemon's log tells.
var notUsedFor = regexp.MustCompile(`not used for ([0-9.msh]+),`)

// settledAt returns when the last claim of a log had settled; zero for none.
func settledAt(log string) (at time.Time) {
	for line := range strings.Lines(log) {
		var said struct {
			Time   time.Time
			Reason string
		}
		if !strings.Contains(line, "waiting: settling") || json.Unmarshal([]byte(line), &said) != nil {
			continue
		}
		if found := notUsedFor.FindStringSubmatch(said.Reason); found != nil {
			if wait, err := time.ParseDuration(found[1]); err == nil {
				at = said.Time.Add(wait)
			}
		}
	}
	return at
}

// stop stops all at once.
func (p *pods) stop(all []*proctest.Daemon) {
	p.r.t.Helper()
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, d := range all {
		group.Go(func() { errs[i] = d.Stop(patience) })
	}
	group.Wait()
	p.r.must(errors.Join(errs...))
}
