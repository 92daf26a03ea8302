package daemon

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
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

// ReadMemory returns what this process, and so a daemon in the same control group, may use.
// root is where /proc and /sys are; "" for the machine's own.
func ReadMemory(root string) (m Memory) {
	text := func(path string) string {
		content, _ := os.ReadFile(filepath.Join(root, path)) // another kernel has other files
		return strings.TrimSpace(string(content))
	}
	for line := range strings.Lines(text("/proc/meminfo")) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "MemTotal:" {
			kib, _ := strconv.ParseUint(fields[1], 10, 54)
			m.Bytes = kib << 10
		}
	}
	for _, dir := range MemoryGroups(root) {
		for _, file := range []string{"memory.max", "memory.limit_in_bytes"} { // of version 2 and of 1
			n, err := strconv.ParseUint(text(filepath.Join(dir, file)), 10, 64)
			if err == nil && n > 0 && n < math.MaxInt64>>1 && (m.Bytes == 0 || n < m.Bytes) {
				m = Memory{n, dir}
			}
		}
	}
	return m
}

// MemoryGroups returns the directories of the control groups that bind this process's memory,
// the innermost first.
func MemoryGroups(root string) (dirs []string) {
	content, _ := os.ReadFile(filepath.Join(root, "/proc/self/cgroup")) // without groups there is none
	for line := range strings.Lines(string(content)) {
		_, group, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, ok := strings.Cut(group, ":")
		mount := "/sys/fs/cgroup"
		if controllers != "" { // version 1 has a hierarchy for each controller
			mount, ok = mount+"/memory", ok && strings.Contains(","+controllers+",", ",memory,")
		}
		if !ok {
			continue
		}
		for ; path != "/" && path != "." && path != ""; path = filepath.Dir(path) {
			dirs = append(dirs, mount+path)
		}
		dirs = append(dirs, mount)
	}
	return dirs
}

// boundHeap has the garbage collector work harder before a control group ends the daemon,
// unless GOMEMLIMIT says when. What the kernel holds of connections is in the group, too.
func boundHeap(m Memory) {
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set && m.Group != "" {
		debug.SetMemoryLimit(int64(m.Bytes / 10 * 8)) //nolint:gosec // below MaxInt64/2
	}
}
