package doctor

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// made returns a root with files.
func made(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content+"\n"), 0o600))
	}
	return root
}

// The real machine can be asked, regardless of its answer.
func TestRealMachine(t *testing.T) {
	var m machine
	require.Contains(t, look(t, m.clock), "ntp")
	found := look(t, m.limits)
	for _, check := range []string{"open-files", "backlog", "cgroup"} {
		require.Contains(t, found, check)
	}
}

func TestKernelClock(t *testing.T) {
	for _, tc := range []struct {
		name   string
		state  ntp
		err    error
		runs   string // the program that keeps the clock
		status Status
		says   string // in what was found, or in what to do
	}{
		{"synchronised", ntp{synchronised: true, estimatedError: time.Millisecond}, nil, "", OK, "1ms"},
		{"not synchronised", ntp{}, nil, "", Warn, "run chrony or systemd-timesyncd"},
		{"a keeper that keeps nothing", ntp{}, nil, "chronyd", Warn, "chronyc tracking"},
		{"another one", ntp{}, nil, "systemd-timesyn", Warn, "timedatectl timesync-status"},
		{"a third", ntp{}, nil, "ntpd", Warn, "ntpq -p"},
		{"loose", ntp{synchronised: true, estimatedError: 3 * time.Second}, nil, "chronyd", Warn, "estimated error of 3s"},
		{"leap second", ntp{synchronised: true, leapSecond: true}, nil, "", Warn, "leap second"},
		{"may not ask", ntp{}, errors.New("operation not permitted"), "", Warn, "operation not permitted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := machine{root: made(t, map[string]string{"/proc/17/comm": tc.runs}), ntp: func() (ntp, error) { return tc.state, tc.err }}
			r := look(t, m.clock)["ntp"]
			require.Equal(t, tc.status, r.Status)
			require.Contains(t, r.Found+" "+r.Do, tc.says)
		})
	}
	silent := machine{root: t.TempDir(), ntp: func() (ntp, error) { return ntp{}, errors.ErrUnsupported }}
	require.Empty(t, look(t, silent.clock), "another system has no adjtimex, and no clocksource")
}

func TestClocksource(t *testing.T) {
	const dir = "/sys/devices/system/clocksource/clocksource0/"
	for _, tc := range []struct {
		name, current, available string
		status                   Status
		says                     string
	}{
		{"tsc", "tsc", "tsc hpet acpi_pm", OK, "tsc"},
		{"virtual", "kvm-clock", "kvm-clock tsc", OK, "kvm-clock"},
		{"slow though tsc is there", "hpet", "tsc hpet acpi_pm", Warn, "why it does not use tsc"},
		{"tsc unstable", "acpi_pm", "hpet acpi_pm", Warn, "unstable"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := machine{root: made(t, map[string]string{dir + "current_clocksource": tc.current, dir + "available_clocksource": tc.available})}
			r := look(t, m.clock)["clocksource"]
			require.Equal(t, tc.status, r.Status)
			require.Contains(t, r.Found+r.Do, tc.says)
		})
	}
}

func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		name   string
		files  map[string]string
		open   uint64
		check  string
		status Status
		says   string
	}{
		{"files enough", nil, 65_920, "open-files", OK, "65536 connections"},
		{"no limit of files", nil, math.MaxUint64, "open-files", OK, ""},
		{"files for few", nil, 1024, "open-files", Warn, "enough for 640 connections and not for the 65536 of max-connectionsLimitNOFILE=65920"},
		{"few files", nil, 511, "open-files", Fail, "leafd needs 512"},
		{"backlog", map[string]string{"/proc/sys/net/core/somaxconn": "4096"}, 0, "backlog", OK, "4096"},
		{"small backlog", map[string]string{"/proc/sys/net/core/somaxconn": "128"}, 0, "backlog", Warn, "somaxconn=1024"},
		{"no groups", nil, 0, "cgroup", OK, "no limit"},
		{"no limit", map[string]string{"/proc/self/cgroup": "0::/a", "/sys/fs/cgroup/a/memory.max": "max", "/sys/fs/cgroup/a/cpu.max": "max 100000"}, 0, "cgroup", OK, "no limit"},
		{"memory and processors", map[string]string{"/proc/self/cgroup": "0::/", "/sys/fs/cgroup/memory.max": "536870912", "/sys/fs/cgroup/cpu.max": "150000 100000"}, 0, "cgroup", OK, "512 MiB of memory, enough for 8192 connections, 1.5 processors"},
		{"little memory, of the group above", map[string]string{"/proc/self/cgroup": "0::/a/b", "/sys/fs/cgroup/a/memory.max": "67108864"}, 0, "cgroup", Warn, "64 MiB"},
		{"little of a processor", map[string]string{"/proc/self/cgroup": "0::/a/b", "/sys/fs/cgroup/a/b/cpu.max": "10000 100000"}, 0, "cgroup", Warn, "0.1 processors"},
		{"groups of version 1", map[string]string{"/proc/self/cgroup": "4:cpu:/b\n3:memory:/a", "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1073741824"}, 0, "cgroup", OK, "1024 MiB of memory, enough for 16384 connections"},
		{"groups of version 1 without a limit", map[string]string{"/proc/self/cgroup": "3:memory:/a", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, 0, "cgroup", OK, "no limit"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := machine{root: made(t, tc.files), connections: 65_536, files: func() (uint64, error) { return tc.open, nil }}
			r, ok := look(t, func(ctx context.Context, r *report) { m.limits(ctx, r) })[tc.check]
			require.True(t, ok)
			require.Equal(t, tc.status, r.Status, r)
			require.Contains(t, r.Found+r.Do, tc.says)
		})
	}
}
