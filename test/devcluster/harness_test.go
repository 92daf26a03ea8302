package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is for a machine under load: a first start alone takes twenty seconds.
const patience = 3 * time.Minute

// running is a cluster under test.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	folder string // its temporary folders are made here
	read   chan struct{}

	mu    sync.Mutex
	lines []string // mu protects
}

// start starts the real program with the real daemon.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	if testing.Short() {
		t.Skip("runs a whole cluster")
	}
	leafd, err := program()
	require.NoError(t, err)

	// Short: a socket's path may have 107 bytes.
	folder, err := os.MkdirTemp("", "c")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	r := &running{t: t, folder: folder, read: make(chan struct{})}
	r.cmd = exec.Command(os.Args[0], append([]string{"-leafd", leafd, "-sql", "../../deploy/leaf_alloc.sql"}, args...)...)
	r.cmd.Env = append(os.Environ(), programVariable+"=1", "TMPDIR="+folder, "LEAFD_ZK_ROOT=/not/ours")
	// Ctrl-C of a terminal reaches the whole group: its children must not mind.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := r.cmd.StdoutPipe()
	require.NoError(t, err)
	r.cmd.Stderr = r.cmd.Stdout
	require.NoError(t, r.cmd.Start())
	go r.follow(pipe)
	t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			_ = r.cmd.Process.Kill()
			r.wait()
		}
		if t.Failed() {
			t.Logf("output:\n%s", r.output())
		}
	})
	return r
}

func (r *running) follow(pipe io.Reader) {
	defer close(r.read)
	scanner := bufio.NewScanner(pipe)
	for scanner.Scan() {
		r.mu.Lock()
		r.lines = append(r.lines, scanner.Text())
		r.mu.Unlock()
	}
}

func (r *running) output() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "\n") + "\n"
}

// awaitLine waits for a line with text; the program must be running meanwhile.
func (r *running) awaitLine(text string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		if strings.Contains(r.output(), text) {
			return true
		}
		select {
		case <-r.read:
			r.t.Errorf("the program ended before it printed %q", text)
			return true
		default:
			return false
		}
	}, patience, 20*time.Millisecond, "line with %q", text)
	require.False(r.t, r.t.Failed())
}

// wait returns the exit code.
func (r *running) wait() int {
	<-r.read
	_ = r.cmd.Wait() // the code tells
	return r.cmd.ProcessState.ExitCode()
}

// family returns the processes that the program has started, by what they are.
func (r *running) family() map[int]string {
	r.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(r.t, err)
	found := map[int]string{}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid …; the name may have spaces and brackets.
		head, rest, _ := strings.Cut(string(text), " (")
		end := strings.LastIndex(rest, ") ")
		fields := strings.Fields(rest[end+2:])
		pid, err := strconv.Atoi(head)
		require.NoError(r.t, err)
		if parent, _ := strconv.Atoi(fields[1]); parent == r.cmd.Process.Pid {
			found[pid] = rest[:end]
		}
	}
	return found
}

// nothingLeft requires that none of family lives, and that the folder is empty.
func (r *running) nothingLeft(family map[int]string) {
	r.t.Helper()
	for pid, name := range family {
		// Ended, and reaped by its parent: a zombie would still be there.
		require.ErrorIs(r.t, syscall.Kill(pid, 0), syscall.ESRCH, "%s, process %d", name, pid)
	}
	left, err := os.ReadDir(r.folder)
	require.NoError(r.t, err)
	require.Empty(r.t, left)
}
