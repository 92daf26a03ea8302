package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// soonExpired is how long before its end a certificate is worth a warning.
const soonExpired = 14 * 24 * time.Hour

// certificate reports whether the first certificate of pair, which the settings name
// by name, is valid at now.
func certificate(r *report, check, name string, pair tls.Certificate, now time.Time) {
	if len(pair.Certificate) == 0 {
		r.Fail(check, fmt.Errorf("%s has no certificate", name), "name a PEM file with a certificate")
		return
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	switch {
	case err != nil:
		r.Fail(check, fmt.Errorf("%s: %w", name, err), "issue the certificate again")
	case now.After(leaf.NotAfter):
		r.Fail(check, fmt.Errorf("%s: the certificate of %q expired on %s", name, leaf.Subject, day(leaf.NotAfter)), "renew it")
	case now.Before(leaf.NotBefore):
		r.Fail(check, errors.New(name+": the certificate is not valid before "+day(leaf.NotBefore)), "see whether the clock is right")
	case leaf.NotAfter.Sub(now) < soonExpired:
		r.Warn(check, fmt.Sprintf("%s: the certificate of %q expires on %s", name, leaf.Subject, day(leaf.NotAfter)), "renew it")
	default:
		r.OK(check, "%s is valid until %s", name, day(leaf.NotAfter))
	}
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
