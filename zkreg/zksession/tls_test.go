package zksession

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/internal/plainfile"
	"github.com/leafd/leafd/test/zookeepertest"
)

// TestTLS: calls go through only where each side likes the other's certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	secure := func(server string, files plainfile.TLSFiles) Config {
		cfg, err := files.Config()
		require.NoError(t, err)
		return Config{Servers: []string{server}, TLS: cfg, Timeout: patience} // a handshake has two thirds of it
	}
	open, closed := zookeepertest.StartTLS(t, false), zookeepertest.StartTLS(t, true)
	for name, test := range map[string]struct {
		server string
		files  plainfile.TLSFiles
		wants  string // of the error; empty: it works
	}{
		"right":                        {server: open.SecureAddr(), files: plainfile.TLSFiles{CA: open.CA}},
		"with a certificate unasked":   {server: open.SecureAddr(), files: plainfile.TLSFiles{CA: open.CA, Cert: open.Cert, Key: open.Cert}},
		"another authority":            {server: open.SecureAddr(), files: plainfile.TLSFiles{CA: open.OtherCA}, wants: "certificate signed by unknown authority"},
		"the system's authorities":     {server: open.SecureAddr(), wants: "certificate signed by unknown authority"},
		"another name":                 {server: open.SecureAddrByIP(), files: plainfile.TLSFiles{CA: open.CA}, wants: "doesn't contain any IP SANs"},
		"a port without TLS":           {server: open.Addr(), files: plainfile.TLSFiles{CA: open.CA}, wants: "TLS"},
		"certificate asked for":        {server: closed.SecureAddr(), files: plainfile.TLSFiles{CA: closed.CA, Cert: closed.Cert, Key: closed.Cert}},
		"certificate asked for, none":  {server: closed.SecureAddr(), files: plainfile.TLSFiles{CA: closed.CA}, wants: "TLS: remote error"},
		"certificate asked for, wrong": {server: closed.SecureAddr(), files: plainfile.TLSFiles{CA: closed.CA, Cert: closed.OtherCert, Key: closed.OtherCert}, wants: "TLS: remote error"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openTest(t, secure(test.server, test.files))
			if test.wants == "" {
				require.NoError(t, s.Sync(within(t, patience), "/"))
				return
			}
			require.ErrorContains(t, awaitFailure(t, s, test.server), test.wants)
			require.Zero(t, s.Info().ID)
			err := s.Sync(within(t, 0), "/")
			require.ErrorIs(t, err, errUnreachable)
			require.ErrorContains(t, err, test.wants)
		})
	}
	t.Run("a name of its own", func(t *testing.T) {
		cfg := secure(open.SecureAddrByIP(), plainfile.TLSFiles{CA: open.CA})
		cfg.TLS.ServerName = "localhost"
		require.NoError(t, openTest(t, cfg).Sync(within(t, patience), "/"))
	})
	t.Run("closed while it hangs", func(t *testing.T) {
		cfg := secure(open.SecureAddr(), plainfile.TLSFiles{CA: open.CA})
		s := openTest(t, cfg)
		require.NoError(t, s.Sync(within(t, patience), "/"))
		open.Pause(t)
		s.Close()
		hung := openTest(t, cfg) // in the handshake
		require.ErrorIs(t, hung.Sync(within(t, 0), "/"), errUnreachable)
		hung.Close()
		open.Resume(t)
	})
}
