package zksession

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/zookeepertest"
)

func TestConfigThatCanNeverWork(t *testing.T) {
	s, err := Open(Config{Timeout: time.Second})
	require.ErrorContains(t, err, "server list must not be empty")
	require.Nil(t, s)
}

// TestNameThatDoesNotResolve among several: the others do, and it is told. A server
// is found by its name, too.
func TestNameThatDoesNotResolve(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	_, port, err := net.SplitHostPort(server.Addr())
	require.NoError(t, err)
	const gone = "no-such-host.invalid:2181"
	for range 4 { // in whichever order
		s := openTest(t, to(gone, "127.0.0.1:1", "localhost:"+port))
		require.NoError(t, s.Sync(within(t, patience), "/"))
		require.Equal(t, "localhost:"+port, s.Info().Server)
		s.Close()
	}
	s := openTest(t, to(gone))
	var dnsErr *net.DNSError
	require.ErrorAs(t, awaitFailure(t, s, gone), &dnsErr)
}

// TestNotZooKeeper: where something else answers, the daemon goes on, and says what is wrong.
func TestNotZooKeeper(t *testing.T) {
	for name, test := range map[string]struct {
		serve func(net.Conn)
		wants string
	}{
		"hangs up":           {func(net.Conn) {}, "wants TLS"},
		"echo":               {func(conn net.Conn) { _, _ = io.Copy(conn, conn) }, "no ZooKeeper server"},
		"HTTP":               {say([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")), "no ZooKeeper server"},
		"no timeout":         {say(greeting(0, 7)), "first answer"},
		"negative timeout":   {say(greeting(1<<31, 7)), "first answer"},
		"half a greeting":    {func(conn net.Conn) { _, _ = conn.Write(greeting(1000, 7)[:20]) }, "unexpected EOF"},
		"short answer":       {say(append(greeting(1000, 7), 0, 0, 0, 3)), "an answer of 3 bytes"},
		"endless answer":     {say(append(greeting(1000, 7), 0x7f, 0, 0, 0)), "an answer of 2130706432 bytes"},
		"silent":             {func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }, "silent"},
		"silent after hello": {say(greeting(1000, 7)), "silent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openTest(t, short(time.Second, listen(t, test.serve)))
			require.Eventually(t, func() bool {
				err := s.Info().Failure
				return err != nil && bytes.Contains([]byte(err.Error()), []byte(test.wants))
			}, patience, time.Millisecond)
			_, err := set(within(t, 10*time.Millisecond), s, "/x", nil, -1)
			require.ErrorIs(t, err, errUnreachable)
		})
	}
}

// say sends b, and then listens until the client goes.
func say(b []byte) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = conn.Write(b)
		_, _ = io.Copy(io.Discard, conn)
	}
}

// TestHosts: a round of all servers is tried at once, and the next one a pause later.
func TestHosts(t *testing.T) {
	servers := []string{"a:1", "b:1", "c:1"}
	s := unopened(t, to(servers...))
	h := &hosts{session: s}
	require.NoError(t, h.Init(servers))
	require.Equal(t, 3, h.Len())
	lap := func() (names []string, pauses []bool) {
		for range servers {
			name, pause := h.Next()
			names, pauses = append(names, name), append(pauses, pause)
		}
		return names, pauses
	}
	first, pauses := lap()
	require.Equal(t, servers, first)
	require.Equal(t, []bool{false, false, false}, pauses)
	second, pauses := lap()
	require.Equal(t, first, second, "the order stays")
	require.Equal(t, []bool{true, false, false}, pauses)
	h.Connected()
	_, pauses = lap()
	require.Equal(t, []bool{true, false, false}, pauses, "lost at once")
	h.lap = h.lap.Add(-lapWait)
	_, pauses = lap()
	require.Equal(t, []bool{false, false, false}, pauses)

	s.cancel()
	_, pauses = lap()
	require.Equal(t, []bool{true, true, true}, pauses, "go-zookeeper looks for a close then only")

	orders := map[string]bool{}
	for range 100 {
		h := &hosts{session: s}
		conn, ended, err := zk.Connect(servers, time.Second, zk.WithHostProvider(h), zk.WithLogger(silent{}))
		require.NoError(t, err)
		orders[h.servers[0]] = true
		conn.Close()
		for range ended {
		}
	}
	require.Len(t, orders, 3, "each is some daemon's first")
}
