package cache_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/worker"
)

// start is the timestamp of the first record that a test saves.
const start clock.Millis = 1700000000000

// childDir is the data directory of a process that saves without end, to be killed: the test binary, which runs itself
// again; set only in a child.
const childDir = "LEAFD_CACHE_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child saves records with timestamps that rise by one, and prints each timestamp once Save has returned nil.
func child(dir string) error {
	c, err := cache.Open(dir)
	for next := start; err == nil; next++ {
		if err = c.Save(cachetest.Example(next)); err == nil {
			_, err = fmt.Println(int64(next))
		}
	}
	return err
}

// process is a running child.
type process struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	acked clock.Millis // the timestamp of its last Save that returned nil, or 0
}

func startChild(t *testing.T, dir string) *process {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	p := &process{cmd: exec.Command(exe)}
	p.cmd.Env = append(os.Environ(), childDir+"="+dir)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.lines = bufio.NewScanner(out)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// awaitSave waits for one more Save of the child; false when it has ended.
func (p *process) awaitSave(t *testing.T) bool {
	t.Helper()
	if !p.lines.Scan() {
		require.NoError(t, p.lines.Err())
		return false
	}
	ts, err := strconv.ParseInt(strings.TrimSpace(p.lines.Text()), 10, 64)
	require.NoError(t, err)
	p.acked = clock.Millis(ts)
	return true
}

// awaitKilled reads what the child still said, and sees that SIGKILL ended it.
func (p *process) awaitKilled(t *testing.T) {
	t.Helper()
	for p.awaitSave(t) {
	}
	var exit *exec.ExitError
	require.ErrorAs(t, p.cmd.Wait(), &exit)
	status, ok := exit.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGKILL, status.Signal(), "child ended by itself: %v", exit)
}

// mustOpen opens dir and closes it when the test ends.
func mustOpen(t *testing.T, dir string) *cache.Cache {
	t.Helper()
	c, err := cache.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// saved returns an open directory with the first record.
func saved(t *testing.T) (dir string, c *cache.Cache) {
	t.Helper()
	dir = t.TempDir()
	c = mustOpen(t, dir)
	require.NoError(t, c.Save(cachetest.Example(start)))
	return dir, c
}

// requireHolds sees that c holds exactly want.
func requireHolds(t *testing.T, c worker.Cache, want worker.Record) {
	t.Helper()
	got, err := c.Load()
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// names lists dir.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	list := make([]string, len(entries))
	for i, e := range entries {
		list[i] = e.Name()
	}
	return list
}
