package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// With --zk-auth-file no other client reads or writes the cluster's znodes.
func TestZnodesBehindAPassword(t *testing.T) {
	right := clitest.WriteFile(t, "right", "leaf:pass:word\n")
	s := newStory(t, "--zk-auth-file", right)
	first := s.host("first", "--zk-auth-file", right)
	s.ready("first")
	paths := []string{s.o.root, s.o.forever, s.o.path(0), s.o.temporary, s.o.livePath(first.child)}
	for _, path := range paths {
		_, found, err := s.o.get(path)
		require.True(t, found, path)
		require.ErrorContains(t, err, "not authenticated", path)
		_, err = s.o.make(path+"/x", "", 0)
		require.Error(t, err, path)
	}
	for name, tc := range map[string]struct{ args, says []string }{
		"no password": {nil, []string{"asked without credentials", "--zk-auth-file"}},
		"wrong one":   {[]string{"--zk-auth-file", clitest.WriteFile(t, "wrong", "leaf:other")}, []string{"asked as user", "--zk-auth-file", "ACL"}},
	} {
		h := s.host(name, append(tc.args, "--startup-timeout", "8s")...)
		s.start(name)
		s.exits(name, cli.ExitFailure, tc.says...)
		require.NotContains(t, h.Log(), "leaf:other", name)
		s.onMachine(h.machine, append([]string{"worker", "list"}, tc.args...)...).Failed(t, cli.ExitFailure, tc.says...)
	}
	s.host("second", "--zk-auth-file", right)
	s.ready("second")
	s.is("second", 1)
	s.o.auth("leaf:pass:word")
	for _, path := range paths {
		s.o.must(path)
	}
}

// TLS to ZooKeeper, with certificates on both sides.
func TestZooKeeperOverTLS(t *testing.T) {
	t.Parallel()
	server := zookeepertest.StartTLS(t, true)
	client := []string{"--zk-tls-cert", server.Cert}
	both := append(client, "--zk-tls-ca", server.CA)
	s := (&cluster{t: t, servers: []string{server.SecureAddr()}, root: "/leaf"}).init(both...).story(server.Server)
	a := s.host("a", append(both, "--zk", server.SecureAddr())...)
	s.ready("a")
	s.ids("a")
	require.Contains(t, s.onMachine(newMachine(t), append([]string{"worker", "list"}, both...)...).OK(t), a.machine.addr)
	s.stop("a")
	before := s.o.everything()
	for name, tc := range map[string]struct {
		addr string
		args []string
		says string
	}{
		"another authority":        {server.SecureAddr(), append(client, "--zk-tls-ca", server.OtherCA), "certificate signed by unknown authority"},
		"the system's authorities": {server.SecureAddr(), append(client, "--zk-tls-ca", "system"), "certificate signed by unknown authority"},
		"another name":             {server.SecureAddrByIP(), both, "cannot validate certificate for 127.0.0.1"},
		"no certificate of ours":   {server.SecureAddr(), []string{"--zk-tls-ca", server.CA}, "remote error: tls"},
		"no TLS":                   {server.SecureAddr(), nil, "--zk-tls-ca"},
	} {
		// The first failure is logged, which shall be no time-out.
		h := s.host(name, append(slices.Clone(tc.args), "--zk", tc.addr, "--zk-session-timeout", "1m")...)
		s.start(name)
		s.told(name, "ZooKeeper: connecting", tc.says)
		s.unready(name, "starting")
		s.stop(name)
		require.NotContains(t, h.Log(), "ZooKeeper: connected", tc.says)
	}
	require.Equal(t, before, s.o.everything(), "none of them came through")
}
