package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/leafd/leafd/cmd/leafd/internal/daemon"
)

// machine is the machine that the daemon would run on; tests make one up.
type machine struct {
	root        string                 // where /proc and /sys are; "" for the machine's own
	connections int                    // how many the daemon takes at once
	ntp         func() (ntp, error)    // the kernel's clock; nil asks the kernel
	files       func() (uint64, error) // the limit of open files; nil asks the kernel
}

// ntp is the kernel's account of its clock, as adjtimex(2) has it.
type ntp struct {
	synchronised   bool
	estimatedError time.Duration
	maxError       time.Duration
	leapSecond     bool // one is due
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// looseClock is the estimated error beyond which a clock is reported. The
// threshold between daemons is five seconds.
const looseClock = time.Second

// clock reports ntp, whether something keeps the kernel's clock right, and clocksource,
// what the kernel takes the time from.
func (m machine) clock(_ context.Context, r *report) {
	ask := m.ntp
	if ask == nil {
		ask = kernelClock
	}
	m.judgeNTP(r, ask)
	m.source(r)
}

func (m machine) judgeNTP(r *report, ask func() (ntp, error)) {
	state, err := ask()
	keeper := m.keeper()
	do := "run chrony or systemd-timesyncd: a clock that is set back stops IDs until it has caught up"
	if keeper != "" {
		do = fmt.Sprintf("%s runs here: see whether it reaches its servers (%s)", keeper, map[string]string{
			"chronyd": "chronyc tracking", "ntpd": "ntpq -p", "systemd-timesyncd": "timedatectl timesync-status",
		}[keeper])
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
	case err != nil:
		r.Warn("ntp", fmt.Sprintf("the kernel doesn't tell whether its clock is synchronised: %v", err), "see on the host whether the clock is; a container may not be allowed to ask")
	case !state.synchronised:
		r.Warn("ntp", "the kernel's clock is not synchronised", do)
	case state.estimatedError > looseClock:
		r.Warn("ntp", fmt.Sprintf("the kernel's clock is synchronised, with an estimated error of %s", state.estimatedError), do)
	case state.leapSecond:
		r.Warn("ntp", "a leap second is due: the kernel will step its clock by a second", "have NTP smear it, or expect IDs to be refused for a second")
	default:
		r.OK("ntp", "the kernel's clock is synchronised, estimated error %s, at most %s", state.estimatedError, state.maxError)
	}
}

// keeper returns the program that keeps the clock right here, or "".
func (m machine) keeper() string {
	names, _ := filepath.Glob(filepath.Join(m.root, "/proc/[0-9]*/comm")) // its one error is a bad pattern
	for _, name := range names {
		comm, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		switch strings.TrimSpace(string(comm)) {
		case "chronyd":
			return "chronyd"
		case "ntpd":
			return "ntpd"
		case "systemd-timesyn": // cut to 15 characters
			return "systemd-timesyncd"
		}
	}
	return ""
}

func (m machine) source(r *report) {
	const dir = "/sys/devices/system/clocksource/clocksource0/"
	current := m.text(dir + "current_clocksource")
	switch current {
	case "":
	case "tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "xen", "arch_sys_counter", "timebase", "tod", "riscv_clocksource":
		r.OK("clocksource", "%s", current)
	default:
		found := "the kernel takes the time from " + current + ": each reading of the clock costs a microsecond or so, and each request has one"
		if strings.Contains(" "+m.text(dir+"available_clocksource")+" ", " tsc ") {
			r.Warn("clocksource", found, "see in the kernel's log why it does not use tsc")
			return
		}
		r.Warn("clocksource", found+"; tsc was found unstable or is not there", "see in the kernel's log why, and ask the hypervisor's operator for a stable one")
	}
}

// limits reports open-files, backlog and cgroup.
func (m machine) limits(_ context.Context, r *report) {
	ask := m.files
	if ask == nil {
		ask = daemon.OpenFiles
	}
	if files, err := ask(); err == nil {
		n, err := daemon.Connections(m.connections, files, daemon.Memory{})
		do := fmt.Sprintf("LimitNOFILE=%d in the unit, or ulimit -n", m.connections+daemon.ReservedFiles)
		switch {
		case err != nil:
			r.Fail("open-files", err, do)
		case n < m.connections:
			r.Warn("open-files", fmt.Sprintf("%d files may be open at once, which is enough for %d connections and not for the %d of max-connections", files, n, m.connections), do)
		default:
			r.OK("open-files", "%d may be open at once, %d connections among them", files, n)
		}
	}
	const wanted = 1024
	if n, err := strconv.Atoi(m.text("/proc/sys/net/core/somaxconn")); err == nil {
		if n < wanted {
			r.Warn("backlog", fmt.Sprintf("net.core.somaxconn is %d: that many connections may wait to be accepted", n), fmt.Sprintf("sysctl net.core.somaxconn=%d or more, for when all clients come at once", wanted))
		} else {
			r.OK("backlog", "net.core.somaxconn is %d", n)
		}
	}
	m.cgroup(r)
}

// Least that a daemon should be given.
const (
	leastMemory = 128 << 20
	leastCPU    = 0.5
)

// cgroup checks the limits of the control groups that bind this process, and with it a
// daemon in the same container; those of processors of version 2 alone.
func (m machine) cgroup(r *report) {
	memory, cpu := "", ""
	if limit := daemon.ReadMemory(m.root); limit.Group != "" {
		n, _ := daemon.Connections(m.connections, math.MaxUint64, limit) // files enough are no error
		memory = fmt.Sprintf("%d MiB of memory, enough for %d connections", limit.Bytes>>20, n)
		if limit.Bytes < leastMemory {
			r.Warn("cgroup", "the control group has "+memory, fmt.Sprintf("allow %d MiB or more: beyond the limit the kernel ends the daemon", leastMemory>>20))
			return
		}
	}
	for _, dir := range daemon.MemoryGroups(m.root) {
		quota, period, _ := strings.Cut(m.text(dir+"/cpu.max"), " ")
		q, err := strconv.ParseFloat(quota, 64)
		p, perr := strconv.ParseFloat(period, 64)
		if err == nil && perr == nil && p > 0 {
			cpu = fmt.Sprintf("%.2g processors", q/p)
			if q/p < leastCPU {
				r.Warn("cgroup", "the control group has "+cpu, "allow half a processor or more: a daemon that is held up for long refuses IDs")
				return
			}
		}
	}
	switch {
	case memory != "" && cpu != "":
		r.OK("cgroup", "%s, %s", memory, cpu)
	case memory+cpu != "":
		r.OK("cgroup", "%s", memory+cpu)
	default:
		r.OK("cgroup", "no limit of memory or processors")
	}
}

// text returns the content of a file of the kernel, without the line's end; "" where
// it can't be read: another kernel has other files.
func (m machine) text(path string) string {
	content, err := os.ReadFile(filepath.Join(m.root, path))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}
