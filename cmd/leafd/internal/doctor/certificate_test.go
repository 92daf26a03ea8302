package doctor

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCertificate(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	year := 365 * 24 * time.Hour
	for _, tc := range []struct {
		name     string
		from, to time.Time
		status   Status
		says     string
	}{
		{"valid", now.Add(-year), now.Add(year), OK, "to 2027-11-21"},
		{"ends soon", now.Add(-year), now.Add(24 * time.Hour), Warn, "to 2026-11-22"},
		{"expired", now.Add(-year), now.Add(-time.Second), Fail, "to 2026-11-21, and not now"},
		{"not yet valid", now.Add(time.Hour), now.Add(year), Fail, "and not now"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			leaf := &x509.Certificate{Subject: pkix.Name{CommonName: "leafd"}, NotBefore: tc.from, NotAfter: tc.to}
			r := look(t, func(_ context.Context, r *report) { judgeCertificate(r, "tls-cert", leaf, now) })["tls-cert"]
			require.Equal(t, tc.status, r.Status)
			require.Contains(t, r.Found, tc.says)
		})
	}
}
