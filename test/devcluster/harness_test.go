package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/proctest"
)

// patience is for a machine under load.
const patience = 3 * time.Minute

// running is a cluster under test.
type running struct {
	*proctest.Daemon
	t     *testing.T
	dir   string // its temporary directories are made here
	stdin io.Writer
}

// start starts the real program with the real daemon.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	leafd := proctest.Leafd(t)
	// Short: a socket's path may have 107 bytes.
	dir, err := os.MkdirTemp("", "c")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	in, stdin, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = stdin.Close() })
	d, err := proctest.StartDaemon(proctest.Config{
		Command: append([]string{os.Args[0], "-leafd", leafd, "-sql", "../../deploy/leaf_alloc.sql", "-ports=free"}, args...),
		Env:     append(os.Environ(), programVariable+"=1", "TMPDIR="+dir, "LEAFD_ZK_ROOT=/not/ours"),
		Prepare: func(cmd *exec.Cmd) { cmd.Stdin = in },
	})
	require.NoError(t, in.Close())
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, d.End(syscall.SIGKILL))
		if t.Failed() {
			t.Logf("output:\n%s", d.Log())
		}
	})
	return &running{d, t, dir, stdin}
}

// enter types a line.
func (r *running) enter(line string) {
	r.t.Helper()
	_, err := io.WriteString(r.stdin, line+"\n")
	require.NoError(r.t, err)
}

// awaitLine waits for a line with text; the program must be running meanwhile.
func (r *running) awaitLine(text string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.Logged(text) > 0 || r.Ended() }, patience, 20*time.Millisecond, "line with %q", text)
	require.Positive(r.t, r.Logged(text), "the program ended before it printed %q", text)
}

// family returns the processes that the program has started, by what they are.
func (r *running) family() map[int]string {
	r.t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", r.Pid()))
	require.NoError(r.t, err)
	found := map[int]string{}
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread may have ended
		for child := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(child)
			require.NoError(r.t, err)
			name, err := os.ReadFile("/proc/" + child + "/comm")
			require.NoError(r.t, err)
			found[pid] = strings.TrimSpace(string(name))
		}
	}
	return found
}

// nothingLeft requires that none of family lives, and that the directory is empty.
func (r *running) nothingLeft(family map[int]string) {
	r.t.Helper()
	for pid, name := range family {
		// Ended, and reaped by its parent: a zombie would still be there.
		require.ErrorIs(r.t, syscall.Kill(pid, 0), syscall.ESRCH, "%s, process %d", name, pid)
	}
	left, err := os.ReadDir(r.dir)
	require.NoError(r.t, err)
	require.Empty(r.t, left)
}
