package conn

import (
	"bytes"
	"crypto"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/certtest"
)

// FuzzCertificates: files are refused by name, or they are a certificate with its own
// key, and CAs where clients need a certificate.
func FuzzCertificates(f *testing.F) {
	ca := certtest.New(f, "ca")
	one, two := ca.Issue(f, "one"), ca.Issue(f, "two")
	f.Add(one.Cert, one.Key, []byte(nil), false)
	f.Add(one.Cert, two.Key, ca.PEM, false)
	f.Add(one.Cert, one.Key, ca.PEM, true)
	f.Add(append(bytes.Clone(one.Cert), ca.PEM...), one.Key, append([]byte("# ours\n"), ca.PEM...), true)
	f.Add(one.Key, one.Cert, one.Key, true)
	f.Add(one.Cert[:len(one.Cert)/2], one.Key, []byte("x"), true)
	f.Add(append(bytes.Clone(one.Key), one.Cert...), append(bytes.Clone(one.Cert), one.Key...), ca.PEM[:50], false)
	f.Add(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{0x30, 0x80}}), one.Key, ca.PEM, true)
	dir := f.TempDir()
	paths := CertificateFiles{Cert: filepath.Join(dir, "crt"), Key: filepath.Join(dir, "key")}
	f.Fuzz(func(t *testing.T, cert, key, clients []byte, mutual bool) {
		files := paths
		if files.Mutual = mutual; len(clients) > 0 {
			files.ClientCA = filepath.Join(dir, "ca")
		}
		for path, text := range map[string][]byte{files.Cert: cert, files.Key: key, filepath.Join(dir, "ca"): clients} {
			require.NoError(t, os.WriteFile(path, text, 0o600))
		}
		c, err := OpenCertificates(files, 0, func(string, time.Time) {})
		if err != nil {
			require.ErrorIs(t, err, ErrCertificate)
			require.ErrorContains(t, err, dir)
			return
		}
		set := c.inUse.Load()
		require.NotNil(t, set.pair.Leaf)
		signer, ok := set.pair.PrivateKey.(crypto.Signer)
		require.True(t, ok)
		own, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
		require.True(t, ok)
		require.True(t, own.Equal(set.pair.Leaf.PublicKey), "a key that isn't the certificate's")
		require.Equal(t, len(clients) > 0, set.clients != nil)
		if set.clients != nil {
			require.NotEmpty(t, set.clients.Subjects(), "no CA: nobody could connect") //nolint:staticcheck // it has none of the system's
		}
		require.False(t, mutual && set.clients == nil)
		// What is there unchanged is never complained of.
		changed, err := c.changedLocked()
		require.NoError(t, err)
		require.Nil(t, changed)
	})
}
