package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/doctor"
)

// A copy of a data directory with the segments' file serves none of them, beside the
// original, after a clean stop and after a crash; the original goes on, also from another place.
func TestCopiedSegmentsAreNotServed(t *testing.T) {
	t.Parallel()
	for name, modes := range map[string][]string{"both": nil, "segment alone": {"--modes", "segment"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			var got []int64
			for _, crash := range []bool{false, true} {
				l := m.ready(modes...)
				got = append(got, l.batch("/api/segment/get/leaf-segment-test?n=10")...)
				refuseCopy(t, m, modes) // while the original runs
				if crash {
					l.kill()
				} else {
					require.Equal(t, cli.ExitOK, l.stop())
				}
				refuseCopy(t, m, modes)
			}
			moved := newMachine(t)
			require.NoError(t, os.RemoveAll(moved.dataDir()))
			require.NoError(t, os.Rename(m.dataDir(), moved.dataDir()))
			l := moved.ready(modes...)
			requireDistinct(t, append(got, l.batch("/api/segment/get/leaf-segment-test?n=2000")...))
			require.Equal(t, cli.ExitOK, l.stop())
		})
	}
}

// refuseCopy starts a copy of m's data directory, which serves nothing.
func refuseCopy(t *testing.T, m *machine, modes []string) {
	t.Helper()
	twin := newMachine(t)
	require.NoError(t, os.RemoveAll(twin.dataDir()))
	require.NoError(t, exec.Command("cp", "-a", m.dataDir(), twin.dataDir()).Run())
	d := twin.doctor(freeAddress(t), modes...)
	require.Equal(t, cli.ExitFailure, d.code)
	d.result("segments", doctor.Fail, "copied data directory", "delete the copied segments.db*")
	for _, args := range [][]string{{"list"}, {"create", "b"}, {"update", "leaf-segment-test", "--step", "5"}, {"delete", "leaf-segment-test", "--yes"}} {
		leafd(t, append(append([]string{"segment"}, args...), "--data-dir", twin.dataDir())...).Failed(t, cli.ExitFailure, "copied data directory")
	}
	c := twin.start(modes...)
	c.exits(cli.ExitFailure)
	require.True(t, c.hasLogged("copied data directory", "segments.directory"), c.Log())
}
