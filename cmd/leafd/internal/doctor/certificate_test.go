package doctor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCertificate(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	pair := func(from, to time.Time) tls.Certificate {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "leafd"}, NotBefore: from, NotAfter: to}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		require.NoError(t, err)
		return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}
	year := 365 * 24 * time.Hour
	for _, tc := range []struct {
		name   string
		pair   tls.Certificate
		status Status
		says   string
	}{
		{"valid", pair(now.Add(-year), now.Add(year)), OK, "until 2027-11-21"},
		{"ends soon", pair(now.Add(-year), now.Add(24*time.Hour)), Warn, "expires on 2026-11-22"},
		{"expired", pair(now.Add(-year), now.Add(-time.Second)), Fail, "expired on 2026-11-21"},
		{"not yet valid", pair(now.Add(time.Hour), now.Add(year)), Fail, "not valid before"},
		{"none", tls.Certificate{}, Fail, "no certificate"},
		{"no certificate at all", tls.Certificate{Certificate: [][]byte{[]byte("x")}}, Fail, "c.pem"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := look(t, func(_ context.Context, r *report) { certificate(r, "tls", "c.pem", tc.pair, now) })["tls"]
			require.Equal(t, tc.status, r.Status)
			require.Contains(t, r.Found, tc.says)
		})
	}
}
