package zksession

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// A code in an answer is an answer, known or not, and told in words; only the errors of the connection are
// none.
func TestAnswersAreNoSilence(t *testing.T) {
	t.Parallel()
	server := newFake(t)
	refused := errors.New("refused")
	cfg := to(server.addr)
	cfg.Refused = refused
	s := openTest(t, cfg)
	for code, words := range map[int32]string{
		-125: "a quota is used up", -124: "log in with SASL", -127: "it throttles requests", -118: "the session has moved", -102: "not authorised (-102) (asked without credentials: look at the node's ACL, and at --zk-auth-file)",
		-119: "read-only", -999: "unknown error: -999", -101: "node does not exist",
	} {
		server.code.Store(code)
		_, _, err := s.Get(within(t, patience), "/x")
		require.ErrorContains(t, err, "get /x: ", code)
		require.ErrorContains(t, err, words, code)
		require.ErrorIs(t, err, refused, code)
		require.NotErrorIs(t, err, errUnreachable, code)
		require.NotErrorIs(t, err, ErrOtherConnection, code)
		told, answered := Answered(fmt.Errorf("as its caller has it: %w", err))
		require.True(t, answered, code)
		require.Contains(t, told, words, code)
	}
	here, there := net.Pipe()
	require.NoError(t, there.Close())
	_, unsent := newWire(t, here).Write([]byte("x"))
	for _, err := range []error{unsent, zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrClosing, zk.ErrSessionExpired} {
		err := s.explain(call{name: "get", path: "/x"}, err)
		require.ErrorIs(t, err, errUnreachable)
		_, answered := Answered(err)
		require.False(t, answered)
	}
	_, answered := Answered(zk.ErrNoNode)
	require.True(t, answered)
}
