package daemon

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// Memory is what a process may use.
type Memory struct {
	Bytes uint64 // the least limit of its control groups, else what the machine has; 0: neither is known
	Group string // the control group that has this limit; "": it is the machine's
}

// String returns the size in MiB, and where it is from.
func (m Memory) String() string {
	if m.Group != "" {
		return fmt.Sprintf("%d MiB of memory (%s)", m.Bytes>>20, m.Group)
	}
	return fmt.Sprintf("%d MiB of memory", m.Bytes>>20)
}

// readMemory returns what this process may use. root is where /proc and /sys are; "" for the machine's own.
func readMemory(root string) (m Memory) {
	proc, err := procfs.NewFS(filepath.Join(root, "/proc"))
	if err != nil {
		return m
	}
	if info, err := proc.Meminfo(); err == nil && info.MemTotalBytes != nil {
		m.Bytes = *info.MemTotalBytes
	}
	self, _ := proc.Self() // without it there is no group
	groups, _ := self.Cgroups()
	for _, g := range groups {
		mount := "/sys/fs/cgroup"
		if len(g.Controllers) > 0 { // version 1 has a hierarchy for each controller
			mount += "/memory"
		}
		if len(g.Controllers) > 0 && !slices.Contains(g.Controllers, "memory") {
			continue
		}
		for path, above := filepath.Join("/", g.Path), ""; path != above; path, above = filepath.Dir(path), path { // of / it is /
			for _, file := range []string{"memory.max", "memory.limit_in_bytes"} { // of version 2 and of 1
				text, _ := os.ReadFile(filepath.Join(root, mount, path, file)) // another kernel has other files
				n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
				if err == nil && n > 0 && n < math.MaxInt64>>1 && (m.Bytes == 0 || n < m.Bytes) {
					m = Memory{n, filepath.Join(mount, path)}
				}
			}
		}
	}
	return m
}

// boundHeap has the garbage collector work harder before a control group ends the daemon,
// unless GOMEMLIMIT says when. What the kernel holds of connections is in the group, too.
func boundHeap(m Memory) {
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set && m.Group != "" {
		debug.SetMemoryLimit(int64(m.Bytes / 10 * 8)) //nolint:gosec // below MaxInt64/2
	}
}
