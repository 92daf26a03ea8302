package zksession

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/zkreg/zookeepertest"
)

// TestTLS: calls go through only where each side likes the other's certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	open, closed := zookeepertest.StartTLS(t, false), zookeepertest.StartTLS(t, true)
	for name, test := range map[string]struct {
		server string
		files  TLSFiles
		wants  string // of the error; empty: it works
	}{
		"right":                        {server: open.SecureAddr(), files: TLSFiles{CA: open.CA}},
		"with a certificate unasked":   {server: open.SecureAddr(), files: TLSFiles{CA: open.CA, Cert: open.Cert, Key: open.Key}},
		"another authority":            {server: open.SecureAddr(), files: TLSFiles{CA: open.OtherCA}, wants: "certificate signed by unknown authority"},
		"the system's authorities":     {server: open.SecureAddr(), wants: "certificate signed by unknown authority"},
		"another name":                 {server: open.SecureAddrByIP(), files: TLSFiles{CA: open.CA}, wants: "doesn't contain any IP SANs"},
		"a port without TLS":           {server: open.Addr(), files: TLSFiles{CA: open.CA}, wants: "TLS"},
		"certificate asked for":        {server: closed.SecureAddr(), files: TLSFiles{CA: closed.CA, Cert: closed.Cert, Key: closed.Key}},
		"certificate asked for, none":  {server: closed.SecureAddr(), files: TLSFiles{CA: closed.CA}, wants: "certificate"},
		"certificate asked for, wrong": {server: closed.SecureAddr(), files: TLSFiles{CA: closed.CA, Cert: closed.OtherCert, Key: closed.OtherKey}, wants: "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := to(test.server)
			var err error
			cfg.TLS, err = NewTLS(test.files)
			require.NoError(t, err)
			s := openTest(t, cfg)
			if test.wants == "" {
				require.NoError(t, s.Sync(within(t, patience), "/"))
				return
			}
			failed := s.events.await(t, EventServerFailed, 1)
			require.ErrorContains(t, failed.Err, test.wants)
			require.Equal(t, test.server, failed.Server)
			require.Zero(t, s.ID())
			err = s.Sync(within(t, 0), "/")
			require.ErrorIs(t, err, ErrUnreachable)
			require.ErrorContains(t, err, test.wants)
		})
	}
	t.Run("a name of its own", func(t *testing.T) {
		cfg := to(open.SecureAddrByIP())
		var err error
		cfg.TLS, err = NewTLS(TLSFiles{CA: open.CA})
		require.NoError(t, err)
		cfg.TLS.ServerName = "localhost"
		require.NoError(t, openTest(t, cfg).Sync(within(t, patience), "/"))
	})
	t.Run("killed and restarted", func(t *testing.T) {
		cfg := to(open.SecureAddr())
		var err error
		cfg.TLS, err = NewTLS(TLSFiles{CA: open.CA})
		require.NoError(t, err)
		s := openTest(t, cfg)
		require.NoError(t, s.Sync(within(t, patience), "/"))
		id := s.ID()
		open.Kill(t)
		open.Restart(t)
		require.NoError(t, s.Sync(within(t, patience), "/"))
		require.Equal(t, id, s.ID())
	})
	t.Run("closed while it hangs", func(t *testing.T) {
		cfg := to(open.SecureAddr())
		var err error
		cfg.TLS, err = NewTLS(TLSFiles{CA: open.CA})
		require.NoError(t, err)
		s := openTest(t, cfg)
		require.NoError(t, s.Sync(within(t, patience), "/"))
		open.Pause(t)
		s.Close()
		hung := openTest(t, cfg) // in the handshake
		require.ErrorIs(t, hung.Sync(within(t, 0), "/"), ErrUnreachable)
		hung.Close()
		open.Resume(t)
	})
}

func TestNewTLS(t *testing.T) {
	nonsense := filepath.Join(t.TempDir(), "nonsense")
	require.NoError(t, os.WriteFile(nonsense, []byte("nonsense"), 0o600))
	for name, test := range map[string]struct {
		files TLSFiles
		wants string
	}{
		"no such authorities": {TLSFiles{CA: nonsense + "x"}, "no such file"},
		"no authorities":      {TLSFiles{CA: nonsense}, "want a PEM file with a certificate"},
		"no key":              {TLSFiles{Cert: nonsense}, "want a certificate and its key, or neither"},
		"no certificate":      {TLSFiles{Key: nonsense}, "want a certificate and its key, or neither"},
		"not a certificate":   {TLSFiles{Cert: nonsense, Key: nonsense}, nonsense},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := NewTLS(test.files)
			require.ErrorContains(t, err, test.wants)
			require.Nil(t, cfg)
		})
	}
	cfg, err := NewTLS(TLSFiles{})
	require.NoError(t, err)
	require.Nil(t, cfg.RootCAs)
	require.EqualValues(t, tls.VersionTLS12, cfg.MinVersion)
}
