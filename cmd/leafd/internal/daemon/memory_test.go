package daemon

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server"
)

func TestReadMemory(t *testing.T) {
	const machine = "MemTotal:        8388608 kB\nMemFree: 1 kB"
	for _, test := range []struct {
		name  string
		files map[string]string
		bytes uint64
		group string
	}{
		{"nothing is known", nil, 0, ""},
		{"the machine", map[string]string{"/proc/meminfo": machine}, 8 << 30, ""},
		{"a group without a limit", map[string]string{"/proc/meminfo": machine, "/proc/1/cgroup": "0::/a", "/sys/fs/cgroup/a/memory.max": "max"}, 8 << 30, ""},
		{"a group", map[string]string{"/proc/meminfo": machine, "/proc/1/cgroup": "0::/a", "/sys/fs/cgroup/a/memory.max": "536870912"}, 512 << 20, "/sys/fs/cgroup/a"},
		{"the group above has less", map[string]string{"/proc/1/cgroup": "0::/a/b", "/sys/fs/cgroup/a/b/memory.max": "536870912", "/sys/fs/cgroup/a/memory.max": "268435456"}, 256 << 20, "/sys/fs/cgroup/a"},
		{"the machine has less", map[string]string{"/proc/meminfo": machine, "/proc/1/cgroup": "0::/", "/sys/fs/cgroup/memory.max": "17179869184"}, 8 << 30, ""},
		{"version 1, in a container", map[string]string{"/proc/meminfo": machine, "/proc/1/cgroup": "5:cpu:/x\n3:hugetlb,memory:/docker/17", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "134217728"}, 128 << 20, "/sys/fs/cgroup/memory"},
		{"version 1 without a limit", map[string]string{"/proc/meminfo": machine, "/proc/1/cgroup": "3:memory:/", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, 8 << 30, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			for path, content := range test.files {
				path = filepath.Join(root, path)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
				require.NoError(t, os.WriteFile(path, []byte(content+"\n"), 0o600))
			}
			if _, err := os.Stat(root + "/proc"); err == nil {
				require.NoError(t, os.Symlink("1", root+"/proc/self"))
			}
			require.Equal(t, Memory{test.bytes, test.group}, readMemory(root))
		})
	}
	require.Positive(t, readMemory("").Bytes, "this machine's")
}

func TestConnections(t *testing.T) {
	for _, test := range []struct {
		files, memory uint64
		want          int
	}{
		{math.MaxUint64, 0, 65_536},
		{math.MaxUint64, 4 << 30, 65_536},
		{math.MaxUint64, 512 << 20, 8192},
		{math.MaxUint64, 1 << 20, leastConnections},
		{1024, 512 << 20, 1024 - ReservedFiles},
	} {
		n, err := Connections(test.files, Memory{Bytes: test.memory})
		require.NoError(t, err)
		require.Equal(t, test.want, n)
		require.True(t, test.memory == 0 || n == leastConnections || uint64(n)*server.ConnBytes <= test.memory/2)
	}
	_, err := Connections(LeastFiles-1, Memory{})
	require.Error(t, err)
}

// The collector is told of a control group's limit, and of nothing where the operator has.
func TestHeapIsBounded(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	boundHeap(Memory{Bytes: 1 << 30})
	require.Equal(t, before, debug.SetMemoryLimit(-1))
	t.Setenv("GOMEMLIMIT", "1GiB")
	boundHeap(Memory{Bytes: 1 << 30, Group: "/sys/fs/cgroup"})
	require.Equal(t, before, debug.SetMemoryLimit(-1))
	require.NoError(t, os.Unsetenv("GOMEMLIMIT")) // t.Setenv puts it back
	boundHeap(Memory{Bytes: 1 << 30, Group: "/sys/fs/cgroup"})
	require.EqualValues(t, (1<<30)/10*8, debug.SetMemoryLimit(-1))
}
