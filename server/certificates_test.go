package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/certtest"
)

// told collects events.
type told struct {
	mu   sync.Mutex
	list []CertificateEvent
}

func (e *told) notify(event CertificateEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, event)
}

// take returns the events since the last take.
func (e *told) take() []CertificateEvent {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.list
	e.list = nil
	return list
}

func kinds(list []CertificateEvent) []CertificateKind {
	var all []CertificateKind
	for _, event := range list {
		all = append(all, event.Kind)
	}
	return all
}

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

// server.K1, server.K2: only a whole and usable change is taken.
func TestCertificatesFollowTheirFiles(t *testing.T) {
	ca := certtest.New(t, "ca")
	one, two := ca.Issue(t, "one"), ca.Issue(t, "two")
	for _, test := range []struct {
		name   string
		change func(f CertificateFiles)
		kinds  []CertificateKind
		says   string
		inUse  string
	}{
		{"nothing", func(CertificateFiles) {}, nil, "", "one"},
		{"the same again", func(f CertificateFiles) { writePair(t, filepath.Dir(f.Cert), one) }, nil, "", "one"},
		{"a new pair", func(f CertificateFiles) { writePair(t, filepath.Dir(f.Cert), two) }, []CertificateKind{CertificateLoaded}, "", "two"},
		{"a certificate without its key", func(f CertificateFiles) { certtest.Write(t, filepath.Dir(f.Cert), "tls.crt", two.Cert) }, []CertificateKind{CertificateRefused}, "private key does not match", "one"},
		{"half of a file", func(f CertificateFiles) { certtest.Write(t, filepath.Dir(f.Cert), "tls.key", two.Key[:len(two.Key)/2]) }, []CertificateKind{CertificateRefused}, "tls.key", "one"},
		{"an empty file", func(f CertificateFiles) { certtest.Write(t, filepath.Dir(f.Cert), "tls.crt", nil) }, []CertificateKind{CertificateRefused}, "tls.crt", "one"},
		{"no file", func(f CertificateFiles) { require.NoError(t, os.Remove(f.Key)) }, []CertificateKind{CertificateRefused}, "no such file", "one"},
		{"one that has ended", func(f CertificateFiles) {
			writePair(t, filepath.Dir(f.Cert), ca.Issue(t, "ended", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) }))
		}, []CertificateKind{CertificateRefused}, "not now", "one"},
		{"one that is to begin", func(f CertificateFiles) {
			writePair(t, filepath.Dir(f.Cert), ca.Issue(t, "next", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }))
		}, []CertificateKind{CertificateRefused}, "not now", "one"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var events told
			files := writePair(t, t.TempDir(), one)
			c, err := OpenCertificates(files, 0, events.notify)
			require.NoError(t, err)
			c.Look()
			require.Empty(t, events.take())
			test.change(files)
			c.Look()
			if test.says != "" {
				require.Empty(t, events.take(), "it may be written just now")
			}
			c.Look()
			c.Look()
			list := events.take()
			require.Equal(t, test.kinds, kinds(list), "told once")
			require.Equal(t, test.inUse, inUse(t, c))
			if test.says != "" {
				require.ErrorIs(t, list[0].Err, ErrCertificate)
				require.ErrorContains(t, list[0].Err, test.says)
				require.Equal(t, "CN=one", list[0].Subject)
				writePair(t, filepath.Dir(files.Cert), two)
				c.Look()
				require.Equal(t, []CertificateKind{CertificateLoaded}, kinds(events.take()), "mended")
				require.Equal(t, "two", inUse(t, c))
			}
		})
	}
}

// server.K2: between the writing of the certificate and of the key.
func TestCertificatesThatAreBeingWrittenAreNoFailure(t *testing.T) {
	ca := certtest.New(t, "ca")
	one, two := ca.Issue(t, "one"), ca.Issue(t, "two")
	var events told
	dir := t.TempDir()
	c, err := OpenCertificates(writePair(t, dir, one), 0, events.notify)
	require.NoError(t, err)
	certtest.Write(t, dir, "tls.crt", two.Cert)
	c.Look()
	require.Equal(t, "one", inUse(t, c))
	certtest.Write(t, dir, "tls.key", two.Key)
	c.Look()
	require.Equal(t, []CertificateKind{CertificateLoaded}, kinds(events.take()))
	require.Equal(t, "two", inUse(t, c))
}

// server.K3: as Kubernetes changes a secret: the files are links to a link to a directory.
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
	var events told
	c, err := OpenCertificates(files, time.Millisecond, events.notify)
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
	require.NotContains(t, kinds(events.take()), CertificateRefused)
}

func TestCertificatesTellOfTheirEnd(t *testing.T) {
	ca := certtest.New(t, "ca")
	now := time.Now()
	const day = 24 * time.Hour
	for _, test := range []struct {
		name     string
		from, to time.Duration
		want     []CertificateKind
	}{
		{"long", -day, 365 * day, nil},
		{"long, near its end", -365 * day, 13 * day, []CertificateKind{CertificateExpiring}},
		{"long, not yet near", -365 * day, 15 * day, nil},
		{"of a day, new", -time.Minute, day, nil},
		{"of a day, in its last quarter", -19 * time.Hour, 5 * time.Hour, []CertificateKind{CertificateExpiring}},
		{"ended", -day, -time.Hour, []CertificateKind{CertificateExpired}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var events told
			c, err := OpenCertificates(writePair(t, t.TempDir(), ca.Issue(t, "one", func(c *x509.Certificate) {
				c.NotBefore, c.NotAfter = now.Add(test.from), now.Add(test.to)
			})), 0, events.notify)
			require.NoError(t, err)
			c.Look()
			c.Look()
			list := events.take()
			require.Equal(t, test.want, kinds(list), "told once")
			if test.want == nil {
				return
			}
			require.WithinDuration(t, now.Add(test.to), list[0].Expires, time.Second)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.reportExpiryLocked(now.Add(23 * time.Hour))
			if test.to > 23*time.Hour || test.to < 0 {
				require.Empty(t, events.take())
			} else {
				require.Equal(t, []CertificateKind{CertificateExpired}, kinds(events.take()), "the end itself is news")
			}
			c.reportExpiryLocked(now.Add(2 * day))
			require.Len(t, events.take(), 1, "once a day")
		})
	}
}

func TestOpenCertificatesRefuses(t *testing.T) {
	ca := certtest.New(t, "ca")
	good := writePair(t, t.TempDir(), ca.Issue(t, "one"))
	empty := certtest.Write(t, t.TempDir(), "empty", []byte("nothing\n"))
	for name, files := range map[string]CertificateFiles{
		"no certificate": {Key: good.Key},
		"no key":         {Cert: good.Cert},
		"no file":        {Cert: good.Cert + "x", Key: good.Key},
		"an empty CA":    {Cert: good.Cert, Key: good.Key, ClientCA: empty},
		"a missing CA":   {Cert: good.Cert, Key: good.Key, ClientCA: empty + "x"},
		"swapped":        {Cert: good.Key, Key: good.Cert},
	} {
		_, err := OpenCertificates(files, 0, nil)
		require.ErrorIs(t, err, ErrCertificate, name)
	}
}

// What the daemons of a cluster would refuse of each other is unusable from the
// start, and doesn't replace what they take.
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

			var events told
			writePair(t, dir, ca.Issue(t, "before"))
			c, err := OpenCertificates(files, 0, events.notify)
			require.NoError(t, err)
			writePair(t, dir, test.by.Issue(t, "after", func(c *x509.Certificate) { c.ExtKeyUsage = test.usage }))
			c.Look()
			c.Look()
			want, kind := "after", CertificateLoaded
			if !test.good {
				want, kind = "before", CertificateRefused
			}
			require.Equal(t, want, inUse(t, c))
			require.Equal(t, []CertificateKind{kind}, kinds(events.take()))
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
