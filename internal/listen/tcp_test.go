package listen

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPortInUseNamesItsHolder(t *testing.T) {
	t.Parallel()
	held, err := TCP(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	defer held.Close()
	_, err = TCP(t.Context(), held.Addr().String())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, fmt.Sprintf("process %d (", os.Getpid()))
}
