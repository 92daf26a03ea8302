package plainfile

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// TLSFiles names the PEM files of a TLS client.
type TLSFiles struct {
	CA   string // certificates of the authorities that sign the servers'; empty: the system's
	Cert string // our own certificate, with those that lead to the authority; empty: none
	Key  string // its private key; with Cert, or neither; it may be the same file
}

// Config returns the settings of a client: TLS 1.2 at least, and the name that a server is asked
// for by has to be in its certificate. The files are read once, here. It returns an error for a
// file that can't be read or has nothing of use in it.
func (f TLSFiles) Config() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pem, _, err := Read(f.CA, MaxPEM)
		if err != nil {
			return nil, fmt.Errorf("certificates of the authorities: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("certificates of the authorities: %s has no certificate in PEM form", f.CA)
		}
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("want a certificate and its key, or neither")
	}
	if f.Cert != "" {
		cert, _, err := Read(f.Cert, MaxPEM)
		if err != nil {
			return nil, fmt.Errorf("our certificate: %w", err)
		}
		key, _, err := Read(f.Key, MaxPEM)
		if err != nil {
			return nil, fmt.Errorf("its key: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil && f.Key == f.Cert {
			return nil, fmt.Errorf("want a certificate and its key in %s: %w", f.Cert, err)
		}
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", f.Cert, f.Key, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
