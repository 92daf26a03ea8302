package proctest

import (
	"os/exec"
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

func TestDiesWithTheTest(t *testing.T) {
	VerifyDiesWithTest(t, func(t testing.TB) int { return sleeper(t).Pid() })
}
