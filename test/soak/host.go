package main

import (
	"fmt"
	"math"
	"time"

	"github.com/prometheus/procfs"
)

// host watches for how long the host of a virtual machine takes away the CPUs that
// the soak may run on, although a thread is ready to run there. What is due then waits,
// with any server that is to answer it: where that is more than a thousandth of the
// time, none can keep a p99.9 that is shorter.
type host struct {
	proc  string // the directory /proc
	begun time.Time
	cpus  []uint64
	// before is in seconds, NaN where it is not known, as elsewhere than on Linux.
	before float64
}

func watchHost(proc string) host {
	h := host{proc: proc, begun: time.Now(), before: math.NaN()}
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return h
	}
	self, err := fs.Self()
	if err != nil {
		return h
	}
	status, err := self.NewStatus()
	if err != nil || len(status.CpusAllowedList) == 0 {
		return h
	}
	h.cpus = status.CpusAllowedList
	h.before = h.stolen()
	return h
}

// stolen is what has been taken of the CPUs since the machine started, in seconds, to
// the hundredth. (proc_stat(5), steal.)
func (h host) stolen() float64 {
	fs, err := procfs.NewFS(h.proc)
	if err != nil {
		return math.NaN()
	}
	stat, err := fs.Stat()
	if err != nil {
		return math.NaN()
	}
	sum := 0.0
	for _, cpu := range h.cpus {
		of, listed := stat.CPU[int64(cpu)] //nolint:gosec // thousands at most
		if !listed {
			return math.NaN()
		}
		sum += of.Steal
	}
	return sum
}

// took is how many seconds were taken since the watch began; NaN: unknown.
func (h host) took() float64 { return h.stolen() - h.before }

// says is what was taken, for people.
func (h host) says() string {
	took := h.took()
	if math.IsNaN(took) {
		return "what the host took of the CPUs' time is not known"
	}
	share := took / (time.Since(h.begun).Seconds() * float64(len(h.cpus)))
	return fmt.Sprintf("the host took %.2f %% of the CPUs' time, %.2f s", 100*share, took)
}
