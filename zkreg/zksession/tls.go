package zksession

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/leafd/leafd/internal/plainfile"
)

// TLSFiles names the PEM files for TLS to ZooKeeper.
type TLSFiles struct {
	CA   string // certificates of the authorities that sign the servers'; empty: the system's
	Cert string // our own certificate, with those that lead to the authority; empty: none
	Key  string // its private key; with Cert, or neither
}

// NewTLS returns the TLS settings of a connection to ZooKeeper: TLS 1.2 at least,
// and the name that a server is configured with has to be in its certificate. The
// files are read once, here. It fails for a file that can't be read or has nothing
// of use in it.
func NewTLS(files TLSFiles) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if files.CA != "" {
		pem, _, err := plainfile.Read(files.CA, plainfile.MaxPEM)
		if err != nil {
			return nil, fmt.Errorf("certificates of the authorities: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("certificates of the authorities: %s: want a PEM file with a certificate", files.CA)
		}
	}
	if (files.Cert == "") != (files.Key == "") {
		return nil, errors.New("want a certificate and its key, or neither")
	}
	if files.Cert != "" {
		cert, _, err := plainfile.Read(files.Cert, plainfile.MaxPEM)
		if err != nil {
			return nil, fmt.Errorf("our certificate: %w", err)
		}
		key, _, err := plainfile.Read(files.Key, plainfile.MaxPEM)
		if err != nil {
			return nil, fmt.Errorf("its key: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", files.Cert, files.Key, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
