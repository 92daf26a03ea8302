package zookeepertest

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProxy(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, Shared(t).Addr())
	through := func(within time.Duration) (string, error) {
		conn, err := net.Dial("tcp", p.Addr())
		if err != nil {
			return "", err
		}
		defer conn.Close() //nolint:errcheck // all was read
		if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
			return "", err
		}
		if _, err := conn.Write([]byte("srvr")); err != nil {
			return "", err
		}
		answer, err := io.ReadAll(conn)
		return string(answer), err
	}
	serves := func() {
		t.Helper()
		require.Eventually(t, func() bool {
			answer, err := through(time.Second)
			return err == nil && len(answer) > 10
		}, patience, 10*time.Millisecond)
	}
	serves()
	p.Down(t)
	_, err := through(time.Second)
	require.ErrorContains(t, err, "refused")
	p.Up(t)
	serves()
	p.Cut(t)
	serves()
	for name, vanish := range map[string]func(testing.TB, bool){"blackhole": p.Blackhole, "deaf": p.Deaf} {
		vanish(t, true)
		answer, err := through(time.Second)
		require.Empty(t, answer, name)
		if name == "blackhole" { // the other way the server hears, answers, and hangs up
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		}
		vanish(t, false)
		serves()
	}
	p.CutAfter(t, 3)
	answer, err := through(patience)
	require.NoError(t, err)
	require.Len(t, answer, 3)
	p.CutAfter(t, -1)
	serves()
	p.Latency(t, 1500*time.Millisecond)
	_, err = through(time.Second)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	p.Latency(t, 0)
	serves()
}
