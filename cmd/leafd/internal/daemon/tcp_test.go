package daemon

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPortInUseNamesItsHolder(t *testing.T) {
	t.Parallel()
	held, err := ListenTCP(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	defer held.Close()
	_, err = ListenTCP(t.Context(), held.Addr().String())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, fmt.Sprintf("process %d (", os.Getpid()))
}
