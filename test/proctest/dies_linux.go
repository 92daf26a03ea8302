package proctest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const childVariable = "PROCTEST_CHILD"

// VerifyDiesWithTest tests that a test binary that is killed, and so cleans nothing
// up, leaves no server behind: it runs the calling test again in a process of its
// own, and kills that one. start returns the process id of a server.
func VerifyDiesWithTest(t *testing.T, start func(t testing.TB) int) {
	t.Helper()
	if os.Getenv(childVariable) != "" {
		fmt.Printf("server %d\n", start(t))
		<-t.Context().Done()
		return
	}
	binary, err := os.Executable()
	require.NoError(t, err)
	child := exec.CommandContext(t.Context(), binary, "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), childVariable+"=1", "TMPDIR="+t.TempDir()) // which it leaves behind
	output, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	pid := 0
	for lines := bufio.NewScanner(output); pid == 0 && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "server "); ok {
			_, err := fmt.Sscan(text, &pid)
			require.NoError(t, err)
		}
	}
	require.NotZero(t, pid, "the child told no server")
	require.NoError(t, syscall.Kill(pid, 0), "the server runs")
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	require.Eventually(t, func() bool { return !runs(pid) }, Patience, 10*time.Millisecond)
}

// runs tells whether a process runs; one that waits to be reaped doesn't.
func runs(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(status), ") Z ")
}
