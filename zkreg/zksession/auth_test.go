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

// TestDigest: what a user creates is that user's alone.
func TestDigest(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	root := server.NewRoot(t)
	ours := openTest(t, as(to(server.Addr()), "leafd", "se:cret"))
	_, err := create(within(t, patience), ours, root, []byte("a"), 0)
	require.NoError(t, err)
	_, err = ours.Multi(within(t, patience), 0, &zk.CreateRequest{Path: root + "/child"})
	require.NoError(t, err)
	acl, _, err := ours.conn.GetACL(root + "/child")
	require.NoError(t, err)
	require.Equal(t, zk.DigestACL(zk.PermAll, "leafd", "se:cret"), acl)
	requireData(t, ours, root, "a")

	for name, test := range map[string]struct {
		cfg  Config
		says string
	}{
		"no credentials": {to(server.Addr()), "asked without credentials: look at the node's ACL, and at --zk-auth-file"},
		"wrong password": {as(to(server.Addr()), "leafd", "wrong"), `user "leafd"`},
		"wrong user":     {as(to(server.Addr()), "other", "se:cret"), `user "other"`},
	} {
		t.Run(name, func(t *testing.T) {
			theirs := openTest(t, test.cfg)
			for call, do := range map[string]func() error{
				"get":    func() error { _, _, err := theirs.Get(within(t, patience), root); return err },
				"set":    func() error { _, err := set(within(t, patience), theirs, root, nil, -1); return err },
				"create": func() error { _, err := create(within(t, patience), theirs, root+"/x", nil, 0); return err },
				"remove": func() error { return remove(within(t, patience), theirs, root+"/child", -1) },
				"multi": func() error {
					_, err := theirs.Multi(within(t, patience), 0, &zk.DeleteRequest{Path: root + "/child", Version: -1})
					return err
				},
			} {
				err := do()
				require.ErrorIs(t, err, zk.ErrNoAuth, call)
				require.NotErrorIs(t, err, errUnreachable, call)
				require.ErrorContains(t, err, test.says, call)
				require.NotContains(t, err.Error(), "wrong\"", call)
			}
		})
	}
	requireData(t, ours, root, "a")
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
