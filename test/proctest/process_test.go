package proctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sleeper(t testing.TB) *Process {
	t.Helper()
	p, err := Start(exec.Command("sleep", "600"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.End(syscall.SIGKILL)) })
	return p
}

func TestStartOfNothing(t *testing.T) {
	_, err := Start(exec.Command(filepath.Join(t.TempDir(), "nothing")))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestPausedAndEnded(t *testing.T) {
	p := sleeper(t)
	require.NoError(t, p.Pause())
	require.True(t, p.Paused())
	require.NoError(t, p.Resume())
	require.False(t, p.Paused())
	require.NoError(t, p.Pause())
	require.NoError(t, p.End(syscall.SIGTERM), "a paused one goes on first, to hear it")
	<-p.Done()
	require.NoError(t, p.End(syscall.SIGTERM), "it has ended already")
}

func TestDiesWithTheTest(t *testing.T) {
	VerifyDiesWithTest(t, func(t testing.TB) int { return sleeper(t).Pid() })
}

type runner func() int

func (r runner) Run() int { return r() }

func TestShared(t *testing.T) {
	launches, removed := 0, 0
	shared := Shared[int]{
		Launch: func() (int, error) { launches++; return 42, nil },
		Remove: func(n int) error { removed += n; return nil },
	}
	require.Equal(t, 3, shared.StopAfter(runner(func() int { return 3 })).Run(), "no test asked for it")
	require.Zero(t, removed)
	require.Zero(t, shared.StopAfter(runner(func() int {
		require.Equal(t, 42, shared.Get(t))
		require.Equal(t, 42, shared.Get(t))
		return 0
	})).Run())
	require.Equal(t, 1, launches)
	require.Equal(t, 42, removed)

	broken := Shared[int]{Launch: func() (int, error) { return 1, nil }, Remove: func(int) error { return os.ErrClosed }}
	require.Equal(t, 1, broken.StopAfter(runner(func() int { return 0 * broken.Get(t) })).Run(), "a server that stays behind is a failure")
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	require.Contains(t, Tail(path), "no such file")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", 10_000)+"end"), 0o600))
	require.Len(t, Tail(path), 4<<10)
	require.True(t, strings.HasSuffix(Tail(path), "end"))
}
