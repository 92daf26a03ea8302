// Package certtest makes authorities and certificates for tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Authority signs certificates.
type Authority struct {
	PEM []byte // its own certificate

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair is a certificate with its key, in PEM form.
type Pair struct{ Cert, Key []byte }

// New returns an authority of that name.
func New(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{}
	template := lasting(name)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	a.cert, a.key = template, newKey(t)
	a.PEM = a.sign(t, template, a.key)
	cert, err := x509.ParseCertificate(decode(t, a.PEM))
	require.NoError(t, err)
	a.cert = cert
	return a
}

// Issue returns a certificate of that name, for localhost and 127.0.0.1, for
// servers and clients, and valid for an hour from now; change may adapt it.
func (a *Authority) Issue(t testing.TB, name string, change ...func(*x509.Certificate)) Pair {
	t.Helper()
	template := lasting(name)
	template.DNSNames, template.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, f := range change {
		f(template)
	}
	key := newKey(t)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return Pair{Cert: a.sign(t, template, key), Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}
}

// Client returns the configuration of a client that trusts this authority and presents
// one of pairs.
func (a *Authority) Client(t testing.TB, pairs ...Pair) *tls.Config {
	t.Helper()
	conf := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	conf.RootCAs.AddCert(a.cert)
	for _, p := range pairs {
		pair, err := tls.X509KeyPair(p.Cert, p.Key)
		require.NoError(t, err)
		conf.Certificates = append(conf.Certificates, pair)
	}
	return conf
}

// Write replaces a file as a whole, and returns its path.
func Write(t testing.TB, dir, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path+".new", text, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
	return path
}

// sign returns a certificate of template for key.
func (a *Authority) sign(t testing.TB, template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func lasting(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Minute),
		NotAfter:     now.Add(time.Hour),
	}
}

func decode(t testing.TB, text []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(text)
	require.NotNil(t, block)
	return block.Bytes
}
