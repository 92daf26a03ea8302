package doctor

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/leafd/leafd/internal/plainfile"
)

// soonExpired is how long before its end a certificate is worth a warning.
const soonExpired = 14 * 24 * time.Hour

// certificates checks when our own certificates are valid.
func (p *Patient) certificates(_ context.Context, r *report) {
	now := p.wall().Time()
	if files := p.Cfg.Listen.TLS; files.Cert != "" {
		own, err := (plainfile.TLSFiles{Cert: files.Cert, Key: files.Key}).Config()
		if err != nil {
			r.Fail("tls-cert", err, "name a certificate with its key")
		} else {
			judgeCertificate(r, "tls-cert", own.Certificates[0].Leaf, now)
		}
	}
	if p.Cfg.ZooKeeper.TLS != nil {
		for _, pair := range p.Cfg.ZooKeeper.TLS.Certificates {
			judgeCertificate(r, "zk-tls-cert", pair.Leaf, now)
		}
	}
}

// judgeCertificate reports whether a certificate is valid at now.
func judgeCertificate(r *report, check string, leaf *x509.Certificate, now time.Time) {
	found := fmt.Sprintf("the certificate of %q is valid from %s to %s", leaf.Subject, leaf.NotBefore.UTC().Format(time.DateOnly), leaf.NotAfter.UTC().Format(time.DateOnly))
	switch {
	case now.After(leaf.NotAfter), now.Before(leaf.NotBefore):
		r.Fail(check, fmt.Errorf("%s, and not now", found), "renew it, or see whether the clock is right")
	case leaf.NotAfter.Sub(now) < soonExpired:
		r.Warn(check, found, "renew it")
	default:
		r.OK(check, "%s", found)
	}
}
