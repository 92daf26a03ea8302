package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/internal/proctest"
)

// programVariable set makes the test binary the program, with its own arguments.
const programVariable = "LEAFD_CLUSTER_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(proctest.RemoveLeafdAfter(m))
}

func get(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode, string(body))
	return string(body)
}

// TestClusterRunsUntilItIsInterrupted does what the printed lines say, and then
// presses Ctrl-C.
func TestClusterRunsUntilItIsInterrupted(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.awaitLine("Ctrl-C stops it")
	family := r.family()
	require.Len(t, family, 5, "ZooKeeper, MariaDB and three daemons: %v", family)

	out := r.Log()
	require.Regexp(t, `(?m)^ID +NODE +ADDRESS +STATE `, out)
	require.Regexp(t, `(?m)^3 entries, 3 live, 1021 left of 1024$`, out)
	require.Regexp(t, `(?m)^leafd1 \| .+`, out, "the daemons' lines have their name before them")

	lines := regexp.MustCompile(`(?m)^curl '?([^'\n]+)'?$`).FindAllStringSubmatch(out, -1)
	require.Greater(t, len(lines), 4)
	seen := map[string]bool{}
	for _, line := range lines {
		body := get(t, line[1])
		require.NotEmpty(t, body, line[1])
		if strings.Contains(line[1], "/api/snowflake/get/") {
			for id := range strings.Lines(body) {
				require.False(t, seen[id], "%s repeats %s", line[1], id)
				seen[id] = true
			}
		}
	}
	require.Len(t, seen, 3+10)

	// The whole group, as a terminal does.
	require.NoError(t, syscall.Kill(-r.Pid(), syscall.SIGINT))
	require.Zero(t, r.ExitCode(), r.Log())
	require.Contains(t, r.Log(), "nothing is left behind")
	r.nothingLeft(family)
}

// small is a cluster that is up soon, with settings that it has to be made with.
func small() []string {
	return []string{"-daemons=1", "--", "--zk-session-timeout=1s", "--zk-root=/try/leaf", "--layout", "41+9+13"}
}

// TestClusterEndsWhenAPartDies kills one part of each kind in a cluster of its own.
func TestClusterEndsWhenAPartDies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, after, says string }{
		{"leafd", "Ctrl-C stops it", "ended: signal: killed"},
		{"mariadbd", "Ctrl-C stops it", "MariaDB at 127.0.0.1:"},
		{"java", "waiting for the daemons", "ZooKeeper at 127.0.0.1:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, small()...)
			r.awaitLine(tc.after)
			family := r.family()
			require.NoError(t, syscall.Kill(find(t, family, tc.name), syscall.SIGKILL))
			require.Equal(t, 1, r.ExitCode(), r.Log())
			require.Contains(t, r.Log(), "\ncluster: ")
			require.Contains(t, r.Log(), tc.says)
			r.nothingLeft(family)
		})
	}
}

// TestClusterIsInterruptedWhileItStarts presses Ctrl-C before anything is ready.
func TestClusterIsInterruptedWhileItStarts(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.awaitLine("waiting for the daemons")
	family := r.family()
	require.Len(t, family, 5, "%v", family)
	require.NoError(t, r.Signal(syscall.SIGTERM))
	require.Zero(t, r.ExitCode(), r.Log())
	r.nothingLeft(family)
}

// TestClusterKillsADaemonThatDoesNotStop: it is told, waited for, and killed.
func TestClusterKillsADaemonThatDoesNotStop(t *testing.T) {
	t.Parallel()
	r := start(t, append([]string{"-stop-within=2s"}, small()...)...)
	r.awaitLine("Ctrl-C stops it")
	family := r.family()
	require.NoError(t, syscall.Kill(find(t, family, "leafd"), syscall.SIGSTOP))
	require.NoError(t, r.Signal(syscall.SIGINT))
	require.Equal(t, 1, r.ExitCode(), r.Log())
	require.Contains(t, r.Log(), "did not stop within 2s and was killed")
	r.nothingLeft(family)
}

// find returns the process of family with that name.
func find(t *testing.T, family map[int]string, wanted string) int {
	t.Helper()
	for pid, name := range family {
		if name == wanted {
			return pid
		}
	}
	t.Fatalf("no %s among %v", wanted, family)
	return 0
}

func TestUsage(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"help", []string{"-h"}, 0, "-leafd"},
		{"unknown flag", []string{"-nope"}, 2, "-nope"},
		{"no daemon", []string{"-daemons=0"}, 2, "want 1 to 64"},
		{"too many", []string{"-daemons=65"}, 2, "want 1 to 64"},
		{"no program", []string{"-leafd", filepath.Join(t.TempDir(), "leafd")}, 1, "make build makes it"},
		{"no script", []string{"-leafd", os.Args[0], "-sql", filepath.Join(t.TempDir(), "x.sql")}, 1, "x.sql"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], tc.args...)
			cmd.Env = append(os.Environ(), programVariable+"=1")
			out, err := cmd.CombinedOutput()
			if tc.code == 0 {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, fmt.Sprintf("exit status %d", tc.code))
			}
			require.Contains(t, string(out), tc.says)
		})
	}
}
