package plainfile

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTLSFiles(t *testing.T) {
	nonsense := filepath.Join(t.TempDir(), "nonsense")
	require.NoError(t, os.WriteFile(nonsense, []byte("nonsense"), 0o600))
	for name, test := range map[string]struct {
		files TLSFiles
		wants string
	}{
		"no such authorities": {TLSFiles{CA: nonsense + "x"}, "no such file"},
		"no authorities":      {TLSFiles{CA: nonsense}, "has no certificate in PEM form"},
		"no key":              {TLSFiles{Cert: nonsense}, "want a certificate and its key, or neither"},
		"no certificate":      {TLSFiles{Key: nonsense}, "want a certificate and its key, or neither"},
		"not a certificate":   {TLSFiles{Cert: nonsense, Key: nonsense}, nonsense},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := test.files.Config()
			require.ErrorContains(t, err, test.wants)
			require.Nil(t, cfg)
		})
	}
	cfg, err := TLSFiles{}.Config()
	require.NoError(t, err)
	require.Nil(t, cfg.RootCAs)
	require.EqualValues(t, tls.VersionTLS12, cfg.MinVersion)
}
