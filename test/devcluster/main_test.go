package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/test/proctest"
)

// programVariable set makes the test binary the program, with its own arguments.
const programVariable = "LEAFD_CLUSTER_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
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
	require.Regexp(t, `(?m)^WORKER_ID +NODE +ADDRESS +STATE `, out)
	require.Regexp(t, `(?m)^3 entries, 3 live, 1021 free of 1024\b`, out)
	require.Regexp(t, `(?m)^leafd1 \| .+`, out, "the daemons' lines have their name before them")

	lines := regexp.MustCompile(`(?m)^ +(?:curl|leafd\d) +'?(http[^'\n]+)'?$`).FindAllStringSubmatch(out, -1)
	require.Len(t, lines, 3+2)
	for _, line := range lines {
		require.NotEmpty(t, get(t, line[1]), line[1])
	}
	command := regexp.MustCompile(`(?m)^ +(\S+) (worker list .+)$`).FindStringSubmatch(out)
	listed, err := exec.Command(command[1], strings.Fields(command[2])...).CombinedOutput()
	require.NoError(t, err, string(listed))
	require.Contains(t, string(listed), "3 entries, 3 live")

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

// TestClusterGoesOnWithoutAPart kills and freezes one part of each kind, by a line and from
// outside, and brings it back, and stops while some are gone and some are frozen.
func TestClusterGoesOnWithoutAPart(t *testing.T) {
	t.Parallel()
	r := start(t, small()...)
	r.awaitLine("Ctrl-C stops it")
	id := regexp.MustCompile(`http://\S+/api/snowflake/get/order`).FindString(r.Log())
	pid := func(process string) int {
		family := r.family()
		for pid, name := range family {
			if name == process {
				return pid
			}
		}
		t.Fatalf("no %s among %v", process, family)
		return 0
	}

	r.enter("kill zookeeper")
	r.awaitLine("zookeeper exited by signal 9 (killed); the rest goes on")
	get(t, id)
	r.enter("restart zookeeper")
	r.awaitLine("zookeeper is started again")

	require.NoError(t, syscall.Kill(pid("mariadbd"), syscall.SIGSTOP))
	r.awaitLine("mariadb is frozen")
	get(t, id)
	r.enter("thaw mariadb")
	r.awaitLine("mariadb goes on again")

	require.NoError(t, syscall.Kill(pid("leafd"), syscall.SIGKILL))
	r.awaitLine("leafd1 exited by signal 9 (killed)")
	r.enter("kill leafd1")
	r.awaitLine("leafd1 has ended")
	r.enter("restart leafd1")
	require.Eventually(t, func() bool { return r.Logged("leafd1 is ready") == 2 }, patience, 20*time.Millisecond)
	get(t, id)

	before := pid("mariadbd")
	r.enter("freeze mariadb")
	require.Eventually(t, func() bool { return r.Logged("mariadb is frozen") == 2 }, patience, 20*time.Millisecond)
	r.enter("restart mariadb") // of what runs, and is frozen
	r.awaitLine("mariadb is started again")
	require.NotEqual(t, before, pid("mariadbd"))
	for line, says := range map[string]string{
		"status": "is ready", "help": "freeze NAME", "kill nothing": "no part is called nothing", "what": "what: not known",
	} {
		r.enter(line)
		r.awaitLine(says)
	}

	family := r.family()
	r.enter("freeze leafd1")
	r.awaitLine("leafd1 is frozen")
	r.enter("kill mariadb")
	r.awaitLine("mariadb exited by signal 9")
	require.NoError(t, r.Signal(syscall.SIGINT))
	require.Zero(t, r.ExitCode(), r.Log())
	r.nothingLeft(family)
}

// TestSettingThatLeafdRefuses: daemons that never come up are no part to bring back.
func TestSettingThatLeafdRefuses(t *testing.T) {
	t.Parallel()
	r := start(t, "-daemons=1", "--", "--drain-delay=never")
	require.Equal(t, 1, r.ExitCode(), r.Log())
	require.Contains(t, r.Log(), "leafd1 exited with status 2 before it was ready")
	r.nothingLeft(nil)
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

func TestUsage(t *testing.T) {
	held, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer held.Close()
	taken := strconv.Itoa(held.Addr().(*net.TCPAddr).Port - mariadbPort)
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-h"}, 0, "-leafd"},
		{[]string{"-nope"}, 2, "-nope"},
		{[]string{"-daemons=0"}, 2, "want 1 to 64"},
		{[]string{"-ports=80"}, 2, "want 1000 to 65000, or free"},
		{[]string{"-ports=free", "-leafd", "no/leafd"}, 1, "make build makes it"},
		{[]string{"-ports=free", "-leafd", os.Args[0], "-sql", "no.sql"}, 1, "no.sql"},
		{[]string{"-ports", taken}, 1, "make cluster PORTS=18000"},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			var out bytes.Buffer
			require.Equal(t, tc.code, run(tc.args, strings.NewReader(""), io.Discard, &out))
			require.Contains(t, out.String(), tc.says)
		})
	}
}
