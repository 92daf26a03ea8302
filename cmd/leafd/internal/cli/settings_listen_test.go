package cli

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/test/certtest"
)

func TestListenSettings(t *testing.T) {
	t.Parallel()
	ca, dir := certtest.New(t, "ca"), t.TempDir()
	pair := ca.Issue(t, "leafd")
	cert, key, cas := certtest.Write(t, dir, "tls.crt", pair.Cert), certtest.Write(t, dir, "tls.key", pair.Key), certtest.Write(t, dir, "ca.crt", ca.PEM)
	foreign := certtest.Write(t, dir, "other.crt", certtest.New(t, "other").PEM)
	open := certtest.Write(t, dir, "open.key", pair.Key)
	require.NoError(t, os.Chmod(open, 0o644))
	withCert := []string{"--tls-cert", cert, "--tls-key", key}
	for _, tc := range []struct {
		name  string
		args  []string
		says  string // "" starts
		warns string
		want  func(t *testing.T, cfg settings.Config)
	}{
		{"none", nil, "", "", func(t *testing.T, cfg settings.Config) {
			require.Empty(t, cfg.Listen.Unix+cfg.Listen.Admin+cfg.Listen.TLS.Cert)
		}},
		{"unix socket", []string{"--listen", "127.0.0.1:8080,unix:/run/leafd.sock"}, "", "", func(t *testing.T, cfg settings.Config) {
			require.Equal(t, "unix:/run/leafd.sock", cfg.Listen.Unix)
			require.Equal(t, "127.0.0.1:8080", cfg.Listen.Advertise, "the identity is the TCP address")
			require.Equal(t, "127.0.0.1:8080", cfg.Node)
		}},
		{"unix socket first", []string{"--listen", "unix:/run/leafd.sock, 127.0.0.1:8080"}, "", "", func(t *testing.T, cfg settings.Config) {
			require.Equal(t, "unix:/run/leafd.sock", cfg.Listen.Unix)
			require.Equal(t, "127.0.0.1:8080", cfg.Listen.Address)
		}},
		{"unix socket alone", []string{"--listen", "unix:/run/leafd.sock"}, "want host:port beside the unix socket", "", nil},
		{"two unix sockets", []string{"--listen", "unix:/run/a,unix:/run/b"}, "at most one unix socket", "", nil},
		{"hosts", []string{"--listen", "localhost:8080", "--admin-listen", "127.0.0.1:8081", "--allow-host", "a.example, b.example"}, "", "", func(t *testing.T, cfg settings.Config) {
			name, err := os.Hostname()
			require.NoError(t, err)
			require.Equal(t, []string{"a.example", "b.example", "localhost", "127.0.0.1", name}, cfg.Live().Hosts)
		}},
		{"host with a scheme", []string{"--allow-host", "a,http://b"}, "names alone", "", nil},
		{"abstract socket", []string{"--listen", ":8080,unix:@leafd"}, "abstract", "", nil},
		{"admin on TCP", []string{"--admin-listen", "127.0.0.1:8081"}, "", "", nil},
		{"admin on TCP for everybody", []string{"--admin-listen", ":8081"}, "", "", nil},
		{"admin on unix", []string{"--admin-listen", "unix:/run/admin.sock"}, "", "", nil},
		{"admin on the same port", []string{"--admin-listen", "127.0.0.1:8080"}, "another address than that of listen", "", nil},
		{"Redis on the same port", []string{"--listen-redis", "127.0.0.1:8080"}, "another address than that of listen", "", nil},
		{"admin on the port of Redis", []string{"--admin-listen", "127.0.0.1:6379", "--listen-redis", "127.0.0.1:6379"}, "another address than that of listen-redis", "", nil},
		{"any port that is free, three times", []string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--listen-redis", "127.0.0.1:0"}, "", "", nil},
		{"admin nowhere", []string{"--admin-listen", "unix:"}, "want a path", "", nil},
		{"TLS", withCert, "", "", func(t *testing.T, cfg settings.Config) {
			require.False(t, cfg.ClientsNeedCert())
		}},
		{"TLS with an open key", []string{"--tls-cert", cert, "--tls-key", open}, "", "chmod o-r", nil},
		{"certificate without key", []string{"--tls-cert", cert}, "want tls-key", "", nil},
		{"client CA without certificate", []string{"--tls-client-ca", cas}, "want tls-cert", "", nil},
		{"certificate that is none", []string{"--tls-cert", key, "--tls-key", key}, "unusable certificate", "", nil},
		{"client CA", append([]string{"--tls-client-ca", cas}, withCert...), "", "", func(t *testing.T, cfg settings.Config) {
			require.True(t, cfg.ClientsNeedCert())
		}},
		{"peers that would refuse us", append([]string{"--tls-client-ca", foreign, "--zk=127.0.0.1:1"}, withCert...), "the other daemons have to take tls-cert as a client's", "", nil},
		{"clients of another CA, and no peers", append([]string{"--tls-client-ca", foreign}, withCert...), "", "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.says != "" {
				invocation{args: append([]string{"serve"}, tc.args...)}.run(t).Failed(t, ExitUsage, tc.says)
				return
			}
			cfg := captured(t, invocation{args: tc.args})
			if tc.want != nil {
				tc.want(t, cfg)
			}
			if tc.warns == "" {
				require.Empty(t, cfg.Warnings)
			} else {
				require.Len(t, cfg.Warnings, 1)
				require.Contains(t, cfg.Warnings[0], tc.warns)
			}
		})
	}
}

func TestRemoteFlags(t *testing.T) {
	t.Parallel()
	ca, dir := certtest.New(t, "ca"), t.TempDir()
	pair := ca.Issue(t, "alice")
	cert, key, cas := certtest.Write(t, dir, "c", pair.Cert), certtest.Write(t, dir, "k", pair.Key), certtest.Write(t, dir, "ca", ca.PEM)
	for _, tc := range []struct {
		name string
		args []string
		says []string
	}{
		{"no path", []string{"id", "next", "--url", "unix:"}, []string{"want a path"}},
		{"CA for plain HTTP", []string{"id", "next", "--ca-file", cas}, []string{"https://"}},
		{"CA that is none", []string{"id", "next", "--url", "https://x", "--ca-file", key}, []string{"no certificate in PEM form"}},
		{"certificate without key", []string{"id", "next", "--url", "https://x", "--cert-file", cert}, []string{"--key-file: want a certificate and its key"}},
		{"certificate that is none", []string{"id", "next", "--url", "https://x", "--cert-file", key, "--key-file", key}, []string{"--cert-file"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			leafd(t, tc.args...).Failed(t, ExitUsage, tc.says...)
		})
	}
}
