package mariadbtest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(StopAfter(m)) }

const patience = 60 * time.Second

// TestDataOutlivesTheProcess takes a server through every end it can have.
func TestDataOutlivesTheProcess(t *testing.T) {
	server := Start(t)
	db := server.DB(t, server.NewDatabase(t))
	_, err := db.ExecContext(t.Context(), "CREATE TABLE numbers (n INT) ENGINE=InnoDB")
	require.NoError(t, err)
	address := server.Addr()
	for i, end := range []func(testing.TB){server.Kill, server.Stop, server.Kill} {
		_, err := db.ExecContext(t.Context(), "INSERT INTO numbers VALUES (?)", i)
		require.NoError(t, err)
		end(t)
		end(t) // there is none any more, and that is in order
		require.Error(t, db.PingContext(t.Context()))
		server.Restart(t)
		var rows int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM numbers").Scan(&rows))
		require.Equal(t, i+1, rows)
		require.Equal(t, address, server.Addr())
	}
}

func TestPausedServerAnswersAfterResume(t *testing.T) {
	server := Start(t)
	db := server.DB(t, server.NewDatabase(t))
	require.NoError(t, db.PingContext(t.Context()))
	server.Pause(t)
	answered := make(chan error, 1)
	go func() { answered <- db.PingContext(t.Context()) }()
	require.Never(t, func() bool { return len(answered) > 0 }, 200*time.Millisecond, 50*time.Millisecond)
	server.Resume(t)
	require.NoError(t, <-answered)
	server.Pause(t)
	server.Stop(t) // of a paused one
}

func TestSharedIsOne(t *testing.T) {
	first, second := Shared(t), Shared(t)
	require.Same(t, first, second)
	require.NotEqual(t, first.NewDatabase(t), second.NewDatabase(t))
}

const childVariable = "MARIADBTEST_CHILD"

// TestChild is the process that TestServerDiesWithTheTest kills.
func TestChild(t *testing.T) {
	server := Start(t)
	require.Positive(t, server.process.cmd.Process.Pid)
	if os.Getenv(childVariable) != "" {
		fmt.Printf("server %d\n", server.process.cmd.Process.Pid)
		<-t.Context().Done()
	}
}

// TestServerDiesWithTheTest: a test binary that is killed, and so cleans nothing
// up, leaves no server behind.
func TestServerDiesWithTheTest(t *testing.T) {
	if runtime.GOOS != "linux" || testing.Short() {
		t.Skip("needs Linux and a MariaDB server")
	}
	binary, err := os.Executable()
	require.NoError(t, err)
	child := exec.CommandContext(t.Context(), binary, "-test.run=^TestChild$")
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
	require.Eventually(t, func() bool { return !runs(pid) }, patience, 10*time.Millisecond)
}

// runs tells whether a process runs; one that waits to be reaped doesn't.
func runs(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(status), ") Z ")
}
