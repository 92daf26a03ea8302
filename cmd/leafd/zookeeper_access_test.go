package main

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// With --zk-auth-file no other client reads or writes the cluster's znodes.
func TestZnodesBehindAPassword(t *testing.T) {
	t.Parallel()
	right := clitest.WriteFile(t, "right", "leaf:pass:word\n")
	c := onShared(t, "--zk-auth-file", right)
	o := c.watch()
	first := c.machine("--zk-auth-file", right).ready(frequent()...)
	entry := o.path(0)
	paths := []string{o.root, o.forever, entry, o.temporary, o.livePath(first)}
	for _, path := range paths {
		_, found, err := o.get(path)
		require.True(t, found, path)
		require.ErrorContains(t, err, "not authenticated", path)
		_, err = o.make(path+"/x", "", 0)
		require.Error(t, err, path)
	}
	o.auth("leaf:wrong")
	_, _, err := o.get(entry)
	require.ErrorContains(t, err, "not authenticated")

	for name, tc := range map[string]struct{ args, says []string }{
		"no password": {nil, []string{"asked without credentials", "--zk-auth-file"}},
		"wrong one":   {[]string{"--zk-auth-file", clitest.WriteFile(t, "wrong", "leaf:other")}, []string{"asked as user", "--zk-auth-file", "ACL"}},
	} {
		l := c.machine(tc.args...).start(frequent()...)
		l.exits(cli.ExitFailure, name)
		for _, says := range tc.says {
			require.Contains(t, l.Log(), says, name)
		}
		require.NotContains(t, l.Log(), "leaf:other", name)
		require.NotContains(t, l.Log(), "issuing snowflake IDs", name)
		out := c.onMachine(newMachine(t), append([]string{"worker", "list"}, tc.args...)...)
		out.Failed(t, cli.ExitFailure, tc.says...)
	}

	second := c.machine("--zk-auth-file", right).ready(frequent()...)
	require.Equal(t, int64(1), second.info().ID)
	second.awaitLive(2)
	o.auth("leaf:pass:word")
	for _, path := range paths {
		o.must(path)
	}
	require.Equal(t, cli.ExitOK, second.stop())
	require.Equal(t, cli.ExitOK, first.stop())
}

// TLS to ZooKeeper, with certificates on both sides.
func TestZooKeeperOverTLS(t *testing.T) {
	t.Parallel()
	server := zookeepertest.StartTLS(t, true)
	c := &cluster{t: t, servers: []string{server.SecureAddr()}, root: "/leaf"}
	o := newOnlooker(t, server.Server, c.root)
	client := []string{"--zk-tls-cert", server.Cert}
	c.init(append(client, "--zk-tls-ca", server.CA)...)
	l := c.machine(append(client, "--zk-tls-ca", server.CA)...).ready(frequent()...)
	require.Equal(t, []string{l.addr}, o.live())
	l.awaitStatus("/api/snowflake/get/a", http.StatusOK)
	list := c.onMachine(newMachine(t), append([]string{"worker", "list", "--zk-tls-ca", server.CA}, client...)...).OK(t)
	require.Contains(t, list, l.addr)
	require.Equal(t, cli.ExitOK, l.stop())

	before := o.everything()
	refused := map[*child]string{}
	for _, tc := range map[string]struct {
		addr string
		args []string
		says string
	}{
		"another authority":        {server.SecureAddr(), append(client, "--zk-tls-ca", server.OtherCA), "certificate signed by unknown authority"},
		"the system's authorities": {server.SecureAddr(), append(client, "--zk-tls-ca", "system"), "certificate signed by unknown authority"},
		"another name":             {server.SecureAddrByIP(), append(client, "--zk-tls-ca", server.CA), "cannot validate certificate for 127.0.0.1"},
		"no certificate of ours":   {server.SecureAddr(), []string{"--zk-tls-ca", server.CA}, "remote error: tls"},
		"no TLS":                   {server.SecureAddr(), nil, "--zk-tls-ca"},
	} {
		c.servers = []string{tc.addr}
		patient := []string{"--zk-session-timeout", "1m"} // the first failure is logged, which shall be no time-out
		refused[c.machine(slices.Concat(patient, tc.args)...).start()] = tc.says
	}
	for l, says := range refused {
		l.awaitLog("ZooKeeper: connecting", says)
		require.Equal(t, "starting", l.mustGet("/readyz").code(), says)
		require.Equal(t, cli.ExitOK, l.stop(), says)
		require.NotContains(t, l.Log(), "ZooKeeper: connected", says)
	}
	require.Equal(t, before, o.everything(), "none of them came through")
}
