package daemon

import (
	"math"
	"os"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/conn"
)

func TestConnections(t *testing.T) {
	for _, test := range []struct {
		files, memory, each uint64
		want                int
	}{
		{math.MaxUint64, 0, conn.Bytes, 65_536},
		{math.MaxUint64, 4 << 30, conn.Bytes, 65_536},
		{math.MaxUint64, 512 << 20, conn.SecureBytes, 5461},
		{math.MaxUint64, 512 << 20, conn.Bytes, 8192},
		{math.MaxUint64, 1 << 20, conn.Bytes, leastConnections},
		{1024, 512 << 20, conn.Bytes, 1024 - ReservedFiles},
	} {
		n, err := Connections(test.files, test.memory, test.each)
		require.NoError(t, err)
		require.Equal(t, test.want, n)
		require.True(t, test.memory == 0 || n == leastConnections || uint64(n)*test.each <= test.memory/2)
	}
	_, err := Connections(LeastFiles-1, 0, conn.Bytes)
	require.Error(t, err)
}

// The collector is told of nothing where the operator has told it, and never of more than there is.
func TestMemoryIsBounded(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	t.Setenv("GOMEMLIMIT", "1GiB")
	all := boundMemory()
	require.Positive(t, all)
	require.Equal(t, before, debug.SetMemoryLimit(-1))
	require.NoError(t, os.Unsetenv("GOMEMLIMIT")) // t.Setenv puts it back
	require.Equal(t, all, boundMemory())
	bound := debug.SetMemoryLimit(-1)
	require.True(t, bound == math.MaxInt64 || uint64(bound) <= all/10*8+8, bound)
}
