package conn

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/internal/plainfile"
	"github.com/leafd/leafd/server/condition"
)

// ErrCertificate is returned for a certificate, key or CA that can't be used; the
// error names the file and says what is wrong with it.
var ErrCertificate = errors.New("unusable certificate")

// DefaultCertificateInterval is how often Certificates checks its files.
const DefaultCertificateInterval = 2 * time.Second

const (
	// expiryNotice is how long before its end a certificate is reported as expiring;
	// a short-lived one is reported in the last quarter of its life.
	expiryNotice = 14 * 24 * time.Hour
)

// CertificateFiles are PEM files.
type CertificateFiles struct {
	Cert, Key string // the certificate with its intermediates, and its key
	ClientCA  string // the CAs that sign clients' certificates; empty: none
	// Mutual refuses a certificate that daemons with the same ClientCA would not
	// accept both from a server and from a client.
	Mutual bool
}

// Certificates serves the certificate of some files, and reloads it while Run runs. It
// keeps:
//
//  1. Certificate, key and client CAs change together, or not at all: a
//     connection sees one state of the three files.
//  2. A certificate that can't be used never replaces one that can. Files
//     that are being written, or don't match for a moment, are read a second time
//     before they are reported.
//  3. Contents are compared: a rename, a changed symbolic link or a clock
//     that is set back hides no change.
type Certificates struct {
	files  CertificateFiles                        // immutable
	loaded func(subject string, expires time.Time) // immutable
	every  time.Duration                           // immutable
	inUse  atomic.Pointer[certificateSet]

	mu      sync.Mutex
	failing error // mu protects; of the last Look; nil: none
	again   bool  // mu protects; it failed so before
}

// certificateSet is one state of the files. It is never changed.
type certificateSet struct {
	texts   [3][]byte       // of the files
	pair    tls.Certificate // with its Leaf
	clients *x509.CertPool  // nil: none
}

// OpenCertificates reads files. loaded is called from Run and Look once changed files are in use;
// it must not call Look. Run checks the files each interval of every; 0 is DefaultCertificateInterval.
// It returns ErrCertificate, but not for an expired certificate: Conditions tells that.
func OpenCertificates(files CertificateFiles, every time.Duration, loaded func(subject string, expires time.Time)) (*Certificates, error) {
	if every == 0 {
		every = DefaultCertificateInterval
	}
	c := &Certificates{files: files, loaded: loaded, every: every}
	texts, err := c.files.read()
	if err != nil {
		return nil, err
	}
	set, err := c.files.parse(texts)
	if err != nil {
		return nil, err
	}
	c.inUse.Store(set)
	return c, nil
}

// Run follows the files until ctx is done, and returns nil.
func (c *Certificates) Run(ctx context.Context) error {
	t := time.NewTicker(c.every)
	defer t.Stop()
	for {
		c.Look()
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// Look checks the files now.
func (c *Certificates) Look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	set, err := c.changedLocked()
	c.again = err != nil && c.failing != nil && err.Error() == c.failing.Error()
	c.failing = err
	if set != nil {
		c.inUse.Store(set)
		c.loaded(set.pair.Leaf.Subject.String(), set.pair.Leaf.NotAfter)
	}
}

// Conditions returns what is wrong with the certificate in use, or with changed files.
func (c *Certificates) Conditions() (all []condition.Condition) {
	c.mu.Lock()
	refused := c.failing
	if !c.again {
		refused = nil
	}
	c.mu.Unlock()
	if refused != nil {
		all = append(all, condition.Of(condition.ErrCertificateRefused, "", refused))
	}
	leaf, now := c.inUse.Load().pair.Leaf, time.Now()
	notice := min(expiryNotice, leaf.NotAfter.Sub(leaf.NotBefore)/4)
	if expires := leaf.NotAfter.UTC().Format(time.RFC3339); now.After(leaf.NotAfter) {
		all = append(all, condition.Of(condition.ErrCertificateExpiring, c.files.Cert, fmt.Errorf("it has ended at %s: clients refuse it", expires)))
	} else if !now.Before(leaf.NotAfter.Add(-notice)) {
		all = append(all, condition.Of(condition.ErrCertificateExpiring, c.files.Cert, fmt.Errorf("it ends at %s", expires)))
	}
	return all
}

// changedLocked returns the content of the files; nil when it is in use already.
func (c *Certificates) changedLocked() (*certificateSet, error) {
	texts, err := c.files.read()
	if err != nil {
		return nil, err
	}
	if slices.EqualFunc(texts[:], c.inUse.Load().texts[:], bytes.Equal) {
		return nil, nil //nolint:nilnil // nothing has changed
	}
	set, err := c.files.parse(texts)
	if err != nil {
		return nil, err
	}
	if leaf, now := set.pair.Leaf, time.Now(); now.After(leaf.NotAfter) || now.Before(leaf.NotBefore) {
		return nil, fmt.Errorf("%w: %s is valid from %s to %s, and not now", ErrCertificate, c.files.Cert,
			leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return set, nil
}

// read returns the contents of certificate, key and CAs.
func (f CertificateFiles) read() (texts [3][]byte, err error) {
	for i, path := range []string{f.Cert, f.Key, f.ClientCA} {
		if path == "" {
			continue
		}
		if texts[i], _, err = plainfile.Read(path, plainfile.MaxPEM); err != nil {
			return texts, fmt.Errorf("%w: %w", ErrCertificate, err)
		}
	}
	return texts, nil
}

// parse checks what read returned.
func (f CertificateFiles) parse(texts [3][]byte) (*certificateSet, error) {
	set := &certificateSet{texts: texts}
	var err error
	if set.pair, err = tls.X509KeyPair(texts[0], texts[1]); err != nil {
		return nil, fmt.Errorf("%w: %s with the key %s: %w", ErrCertificate, f.Cert, f.Key, err)
	}
	if f.ClientCA != "" {
		set.clients = x509.NewCertPool()
		if !set.clients.AppendCertsFromPEM(texts[2]) {
			return nil, fmt.Errorf("%w: %s has no certificate in PEM form", ErrCertificate, f.ClientCA)
		}
	}
	if f.Mutual {
		if err := set.checkMutual(); err != nil {
			return nil, fmt.Errorf("%w: %s by %s: %w", ErrCertificate, f.Cert, f.ClientCA, err)
		}
	}
	return set, nil
}
