package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeProc is a /proc of a machine with two CPUs, from which so many hundredths of
// seconds have been taken, and a process that may run on those of the list.
func fakeProc(t *testing.T, allowed string, steal ...int) string {
	t.Helper()
	proc := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(proc, "77"), 0o700))
	require.NoError(t, os.Symlink("77", filepath.Join(proc, "self")))
	require.NoError(t, os.WriteFile(filepath.Join(proc, "77", "status"), []byte("Name:\tsoak\nCpus_allowed_list:\t"+allowed+"\n"), 0o600))
	take(t, proc, steal...)
	return proc
}

func take(t *testing.T, proc string, steal ...int) {
	t.Helper()
	text := "cpu  1 2 3 4 5 6 7 8 9 10\n"
	for cpu, s := range steal {
		text += fmt.Sprintf("cpu%d 1 2 3 4 5 6 7 %d 9 10\n", cpu, s)
	}
	require.NoError(t, os.WriteFile(filepath.Join(proc, "stat"), []byte(text+"btime 1\n"), 0o600))
}

func TestHost(t *testing.T) {
	for allowed, says := range map[string]string{
		"1":   "the host took 0.50 % of the CPUs' time, 0.50 s",
		"0-1": "the host took 3.75 % of the CPUs' time, 7.50 s",
	} {
		t.Run("of the CPUs that it may run on, "+allowed, func(t *testing.T) {
			proc := fakeProc(t, allowed, 1000, 2000)
			h := watchHost(proc)
			require.Zero(t, h.took())
			take(t, proc, 1700, 2050)
			h.begun = time.Now().Add(-100 * time.Second)
			require.Equal(t, says, h.says())
		})
	}
	t.Run("of a CPU that has gone", func(t *testing.T) {
		proc := fakeProc(t, "0-1", 1000, 2000)
		h := watchHost(proc)
		take(t, proc, 1000)
		require.True(t, math.IsNaN(h.took()))
	})
	t.Run("not known", func(t *testing.T) {
		h := watchHost(t.TempDir())
		require.True(t, math.IsNaN(h.took()))
		require.Equal(t, "what the host took of the CPUs' time is not known", h.says())
	})
	t.Run("of this machine", func(t *testing.T) {
		if _, err := os.Stat("/proc/self/status"); err == nil {
			h := watchHost("/proc")
			require.GreaterOrEqual(t, h.took(), 0.0)
			require.NotEmpty(t, h.cpus)
		}
	})
}
