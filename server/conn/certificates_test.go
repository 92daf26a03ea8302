package conn

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/certtest"
)

// loads counts the changes of files that came into use.
type loads struct{ atomic.Int64 }

func (l *loads) loaded(string, time.Time) { l.Add(1) }

// writePair writes a pair into dir, and returns where.
func writePair(t *testing.T, dir string, p certtest.Pair) CertificateFiles {
	t.Helper()
	return CertificateFiles{Cert: certtest.Write(t, dir, "tls.crt", p.Cert), Key: certtest.Write(t, dir, "tls.key", p.Key)}
}

// inUse returns the name in the certificate that a new connection gets.
func inUse(t *testing.T, c *Certificates) string {
	t.Helper()
	conf, err := c.Server(false).GetConfigForClient(nil)
	require.NoError(t, err)
	return conf.Certificates[0].Leaf.Subject.CommonName
}

// Only a whole and usable change is taken.
func TestCertificatesFollowTheirFiles(t *testing.T) {
	ca := certtest.New(t, "ca")
	one, two := ca.Issue(t, "one"), ca.Issue(t, "two")
	for _, test := range []struct {
		name   string
		change func(f CertificateFiles)
		loads  int64
		says   string
		inUse  string
	}{
		{"nothing", func(CertificateFiles) {}, 0, "", "one"},
		{"a new pair", func(f CertificateFiles) { writePair(t, filepath.Dir(f.Cert), two) }, 1, "", "two"},
		{"a certificate without its key", func(f CertificateFiles) { certtest.Write(t, filepath.Dir(f.Cert), "tls.crt", two.Cert) }, 0, "private key does not match", "one"},
		{"half of a file", func(f CertificateFiles) { certtest.Write(t, filepath.Dir(f.Cert), "tls.key", two.Key[:len(two.Key)/2]) }, 0, "tls.key", "one"},
		{"no file", func(f CertificateFiles) { require.NoError(t, os.Remove(f.Key)) }, 0, "no such file", "one"},
		{"one that has ended", func(f CertificateFiles) {
			writePair(t, filepath.Dir(f.Cert), ca.Issue(t, "ended", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) }))
		}, 0, "not now", "one"},
		{"one that is to begin", func(f CertificateFiles) {
			writePair(t, filepath.Dir(f.Cert), ca.Issue(t, "next", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }))
		}, 0, "not now", "one"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var events loads
			files := writePair(t, t.TempDir(), one)
			c, err := OpenCertificates(files, 0, events.loaded)
			require.NoError(t, err)
			c.Look()
			test.change(files)
			c.Look()
			require.Empty(t, c.Conditions(), "it may be written just now")
			c.Look()
			c.Look()
			require.Equal(t, test.loads, events.Load())
			require.Equal(t, test.inUse, inUse(t, c))
			if all := c.Conditions(); test.says != "" {
				require.Len(t, all, 1)
				require.EqualValues(t, "certificate", all[0].Code)
				require.ErrorIs(t, all[0].Err, ErrCertificate)
				require.ErrorContains(t, all[0].Err, test.says)
				writePair(t, filepath.Dir(files.Cert), two)
				c.Look()
				require.EqualValues(t, 1, events.Load())
				require.Empty(t, c.Conditions())
				require.Equal(t, "two", inUse(t, c))
			}
		})
	}
}

// As Kubernetes changes a secret: the files are links to a link to a directory.
func TestCertificatesBehindLinks(t *testing.T) {
	ca := certtest.New(t, "ca")
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		writePair(t, filepath.Join(dir, name), ca.Issue(t, name))
	}
	lead := func(to string) {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, "..tmp")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
	}
	lead("one")
	files := CertificateFiles{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	for _, name := range []string{"tls.crt", "tls.key"} {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
	var events loads
	c, err := OpenCertificates(files, time.Millisecond, events.loaded)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for _, name := range []string{"two", "one", "two"} {
		lead(name)
		require.Eventually(t, func() bool { return inUse(t, c) == name }, time.Minute, time.Millisecond)
	}
	stop()
	require.NoError(t, <-ended)
	require.Empty(t, c.Conditions())
}

func TestCertificatesTellOfTheirEnd(t *testing.T) {
	ca := certtest.New(t, "ca")
	now := time.Now()
	const day = 24 * time.Hour
	for _, test := range []struct {
		name     string
		from, to time.Duration
		says     string
	}{
		{"long, near its end", -365 * day, 13 * day, "ends at"},
		{"long, not yet near", -365 * day, 15 * day, ""},
		{"of a day, in its last quarter", -19 * time.Hour, 5 * time.Hour, "ends at"},
		{"ended", -day, -time.Hour, "has ended at"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := OpenCertificates(writePair(t, t.TempDir(), ca.Issue(t, "one", func(c *x509.Certificate) {
				c.NotBefore, c.NotAfter = now.Add(test.from), now.Add(test.to)
			})), 0, nil)
			require.NoError(t, err)
			c.Look()
			all := c.Conditions()
			require.Equal(t, test.says != "", len(all) == 1)
			for _, one := range all {
				require.EqualValues(t, "certificate", one.Code)
				require.ErrorContains(t, one.Err, test.says)
			}
		})
	}
}

func TestOpenCertificatesRefuses(t *testing.T) {
	ca := certtest.New(t, "ca")
	good := writePair(t, t.TempDir(), ca.Issue(t, "one"))
	empty := certtest.Write(t, t.TempDir(), "empty", []byte("nothing\n"))
	for name, files := range map[string]CertificateFiles{
		"no certificate": {Key: good.Key},
		"no file":        {Cert: good.Cert + "x", Key: good.Key},
		"an empty CA":    {Cert: good.Cert, Key: good.Key, ClientCA: empty},
		"swapped":        {Cert: good.Key, Key: good.Cert},
	} {
		_, err := OpenCertificates(files, 0, nil)
		require.ErrorIs(t, err, ErrCertificate, name)
	}
}

// What the daemons of a cluster would refuse of each other is unusable.
func TestMutualCertificates(t *testing.T) {
	ca, other := certtest.New(t, "ca"), certtest.New(t, "other")
	for _, test := range []struct {
		name  string
		by    *certtest.Authority
		usage []x509.ExtKeyUsage
		good  bool
	}{
		{"for both", ca, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, true},
		{"for servers only", ca, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, false},
		{"for clients only", ca, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, false},
		{"by another", other, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			files := writePair(t, dir, test.by.Issue(t, "one", func(c *x509.Certificate) { c.ExtKeyUsage = test.usage }))
			files.ClientCA = certtest.Write(t, dir, "ca.crt", ca.PEM)
			_, err := OpenCertificates(files, 0, nil)
			require.NoError(t, err)
			files.Mutual = true
			if _, err = OpenCertificates(files, 0, nil); test.good {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrCertificate)
			}
		})
	}
	files := writePair(t, t.TempDir(), ca.Issue(t, "one"))
	c, err := OpenCertificates(files, 0, nil)
	require.NoError(t, err)
	files.Mutual = true
	_, err = OpenCertificates(files, 0, nil)
	require.ErrorContains(t, err, "no CA to check it with")
	_, err = c.Server(true).GetConfigForClient(nil)
	require.Error(t, err, "closed, not open")
	require.EqualValues(t, tls.VersionTLS12, c.Server(false).MinVersion)
}

// What a chain may be is looked at before any of it is verified.
func TestChainsAreMeasured(t *testing.T) {
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	require.NoError(t, err)
	bits := func(n, e int) *rsa.PublicKey {
		return &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), uint(n-1)), E: e}
	}
	for _, test := range []struct {
		name string
		key  any
		says string
	}{
		{"RSA", bits(4096, 65537), ""},
		{"a long one", bits(4097, 65537), "4097 bits"},
		{"a large exponent", bits(2048, 65539), "exponent 65539"},
		{"P-521", &p521.PublicKey, "P-521"},
		{"none", nil, "unknown kind"},
	} {
		t.Run(test.name, func(t *testing.T) {
			first := &x509.Certificate{RawSubject: []byte("a"), PublicKey: bits(2048, 3)}
			err := measure([]*x509.Certificate{first, {RawSubject: []byte("b"), PublicKey: test.key}})
			if test.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.says)
		})
	}
}
