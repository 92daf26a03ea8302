package zksession

import (
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/zookeepertest"
)

func as(cfg Config, user, password string) Config {
	cfg.Auth = &Credentials{user, password}
	return cfg
}

// TestNothingIsSentBeforeTheCredentials, which are sent again where the
// connection is cut after any number of bytes of the answer, then over a slow line, and on
// connections after that.
func TestNothingIsSentBeforeTheCredentials(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	root := server.NewRoot(t)
	_, err := server.Conn(t).Create(root, nil, 0, zk.DigestACL(zk.PermAll, "leafd", "secret"))
	require.NoError(t, err)
	for _, bytes := range []int{0, greetingBytes, greetingBytes + 10, greetingBytes + answerBytes} {
		t.Run(strconv.Itoa(bytes), func(t *testing.T) {
			t.Parallel()
			proxy := zookeepertest.NewProxy(t, server.Addr())
			proxy.CutAfter(t, bytes)
			s := openTest(t, as(to(proxy.Addr()), "leafd", "secret"))
			_, _, err := s.Get(within(t, 300*time.Millisecond), root)
			require.ErrorIs(t, err, errUnreachable)
			proxy.CutAfter(t, -1)
			proxy.Latency(t, 100*time.Millisecond)
			for range 3 {
				proxy.Cut(t)
				requireData(t, s, root, "")
				proxy.Latency(t, 0)
			}
		})
	}
}

// Bytes of what a server sends, with the length before each.
const (
	greetingBytes = 4 + 37
	answerBytes   = 4 + 16 // without a result
)

// TestCredentialsRefused by a server that asks for another kind: Info and calls say why they wait.
func TestCredentialsRefused(t *testing.T) {
	t.Parallel()
	server := newFake(t)
	server.refuseAuth.Store(true)
	s := openTest(t, as(to(server.addr), "leafd", "secret"))
	refused := awaitFailure(t, s, server.addr)
	require.ErrorIs(t, refused, zk.ErrAuthFailed)
	require.ErrorContains(t, refused, `user "leafd"`)
	require.NotContains(t, refused.Error(), "secret")
	_, _, err := s.Get(within(t, 1500*time.Millisecond), "/x")
	require.ErrorIs(t, err, errUnreachable)
	require.ErrorIs(t, err, zk.ErrAuthFailed)
	require.Zero(t, s.Info().Connects)
	require.Equal(t, AuthFailed, s.Info().State)
	server.refuseAuth.Store(false)
	connected := awaitConnects(t, s, 1)
	require.EqualValues(t, 1, connected.Connects)
	require.NoError(t, connected.Failure)
}
