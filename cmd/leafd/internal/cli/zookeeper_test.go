package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/certtest"
	"github.com/leafd/leafd/test/clitest"
)

func TestZooKeeperSettings(t *testing.T) {
	t.Parallel()
	c := captured(t, invocation{args: []string{
		"--modes", "snowflake", "--zk", "10.0.0.1:2181, zk2.example:2182,[2001:db8::1]:2181", "--zk-root", "/a/b", "--zk-forever-path", "/snowflake/com.x.leaf/forever",
		"--zk-auth-file", clitest.WriteFile(t, "auth", "leaf:secret\n"), "--zk-tls-ca", "system", "--node", "n1", "--advertise", "10.0.0.5:8080",
	}})
	require.Equal(t, []string{"10.0.0.1:2181", "zk2.example:2182", "[2001:db8::1]:2181"}, c.ZooKeeper.Servers)
	require.Equal(t, "/a/b", c.ZooKeeper.Root)
	require.Equal(t, "/snowflake/com.x.leaf/forever", c.ZooKeeper.ForeverPath)
	require.NotNil(t, c.ZooKeeper.Auth)
	require.NotNil(t, c.ZooKeeper.TLS)
	require.Empty(t, c.Warnings)
}

// Of two machines with the default address each would be the other.
func TestLoopbackIsNoAddressForOthers(t *testing.T) {
	t.Parallel()
	require.Len(t, captured(t, invocation{args: []string{"--modes", "snowflake", "--zk", "a:1"}}).Warnings, 1)
	require.Empty(t, captured(t, invocation{args: []string{"--modes", "snowflake", "--zk", "a:1", "--advertise", "127.0.0.1:8080"}}).Warnings, "somebody means it")
	require.Empty(t, captured(t, invocation{}).Warnings)
}

func TestZooKeeperSettingsRefused(t *testing.T) {
	t.Parallel()
	missing := t.TempDir() + "/missing"
	pair := certtest.New(t, "ca").Issue(t, "leafd")
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"no port":               {[]string{"--zk", "10.0.0.1"}, `--zk is "10.0.0.1"`},
		"no host":               {[]string{"--zk", ":2181"}, "want host:port"},
		"a path in it":          {[]string{"--zk", "a:2181/leaf"}, "zk-root"},
		"relative root":         {[]string{"--zk-root", "leaf"}, "begins with a slash"},
		"root is the root":      {[]string{"--zk-root", "/"}, "without empty parts"},
		"a space in the root":   {[]string{"--zk-root", "/a b"}, "printable"},
		"relative forever path": {[]string{"--zk-forever-path", "x/forever"}, "begins with a slash"},
		"no CA file":            {[]string{"--zk-tls-ca", missing}, "zk-tls-ca"},
		"a CA that is none":     {[]string{"--zk-tls-ca", clitest.WriteFile(t, "ca", "nothing")}, "PEM"},
		"certificate alone":     {[]string{"--zk-tls-ca", "system", "--zk-tls-cert", clitest.WriteFile(t, "cert", string(pair.Cert))}, "--zk-tls-cert is"},
		"key alone":             {[]string{"--zk-tls-ca", "system", "--zk-tls-cert", clitest.WriteFile(t, "key", string(pair.Key))}, "want a certificate and its key in"},
		"certificate, no TLS":   {[]string{"--zk-tls-cert", missing}, "plain"},
		"lease too short":       {[]string{"--lease", "59s"}, "want 1m to 8760h"},
		"lease and thresholds":  {[]string{"--lease", "1m", "--clock-threshold", "30s"}, "--lease is \"1m\": want at least 6s more than twice clock-threshold, which is 30s"},
		"threshold of nothing":  {[]string{"--clock-threshold", "0s"}, "clock-threshold"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			invocation{args: append([]string{"serve"}, tc.args...)}.run(t).Failed(t, ExitUsage, tc.says)
		})
	}
}

// Neither the credentials nor the webhook's URL is ever shown.
func TestZooKeeperSecretsAreHidden(t *testing.T) {
	t.Parallel()
	printed := leafd(t, "config", "--modes", "snowflake", "--zk", "a:1", "--advertise", "10.0.0.5:8080", "--zk-auth-file", clitest.WriteFile(t, "auth", "leaf:topsecret"), "--alarm-webhook", "https://x.example/topsecret").OK(t)
	require.NotContains(t, printed, "topsecret")
	require.Contains(t, printed, "alarm-webhook")
}
