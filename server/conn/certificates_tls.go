package conn

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// Server returns the configuration of a listener: TLS 1.2 or later, with the
// certificate in use when a connection arrives. With clients set, each client must
// present a certificate that a CA in use signed for clients: crypto/tls asks for one and names the CAs,
// and we verify it, once it was measured.
func (c *Certificates) Server(clients bool) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			set := c.inUse.Load()
			conf := &tls.Config{
				MinVersion:   tls.VersionTLS12,
				NextProtos:   []string{"http/1.1"},
				Certificates: []tls.Certificate{set.pair},
			}
			if clients {
				if set.clients == nil {
					return nil, errors.New("clients need certificates, and there is no CA to check them with")
				}
				conf.ClientAuth, conf.ClientCAs = tls.RequireAnyClientCert, set.clients
				conf.VerifyConnection = func(state tls.ConnectionState) error {
					if err := set.verify(state.PeerCertificates, x509.ExtKeyUsageClientAuth); err != nil {
						return err
					}
					if t, ok := hello.Conn.(*takingTurns); ok {
						t.files, t.verified = c, set
					}
					return nil
				}
				// A session ticket would outlive the CA that verified its client.
				conf.SessionTicketsDisabled = true
			}
			return conf, nil
		},
	}
}

// Client returns the configuration of a daemon that asks another for its clock. It
// presents our certificate where one is requested. With verify the peer's certificate
// must be signed by a client CA in use; its name is not compared, because an advertised
// address is ip:port, which certificates rarely have. Without verify any certificate is
// accepted, and the answer is worth no more than over plain HTTP.
func (c *Certificates) Client(verify bool) *tls.Config {
	conf := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does it, without the name
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &c.inUse.Load().pair, nil
		},
	}
	if verify {
		conf.VerifyConnection = func(state tls.ConnectionState) error {
			return c.inUse.Load().verify(state.PeerCertificates, x509.ExtKeyUsageServerAuth)
		}
	}
	return conf
}

// checkMutual returns nil when another daemon with the same client CAs accepts our
// certificate both as a client's and as a server's.
func (set *certificateSet) checkMutual() error {
	chain, err := x509.ParseCertificates(bytes.Join(set.pair.Certificate, nil))
	if err != nil {
		return err
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if err := set.verify(chain, usage); err != nil {
			return err
		}
	}
	return nil
}

// What a chain may be, so that verifying one that was made up costs little: Verify tries every issuer of
// one name (99 of RSA with 8192 bits took 0.4 s of CPU), and four of one subject and key in every order (59 ms).
const (
	maxChain       = 4
	maxRSABits     = 4096
	maxRSAExponent = 65537
)

// measure returns an error for a chain that is not worth verifying.
func measure(chain []*x509.Certificate) error {
	if len(chain) > maxChain {
		return fmt.Errorf("%d certificates, more than %d", len(chain), maxChain)
	}
	for i, cert := range chain {
		for _, other := range chain[:i] {
			if bytes.Equal(cert.RawSubject, other.RawSubject) {
				return errors.New("two certificates of one subject")
			}
		}
		switch key := cert.PublicKey.(type) {
		case *rsa.PublicKey:
			if key.N.BitLen() > maxRSABits || key.E > maxRSAExponent {
				return fmt.Errorf("a key of RSA with %d bits and the exponent %d, more than %d and %d", key.N.BitLen(), key.E, maxRSABits, maxRSAExponent)
			}
		case *ecdsa.PublicKey:
			if key.Curve == elliptic.P521() {
				return errors.New("a key of P-521: use P-256 or P-384")
			}
		case ed25519.PublicKey:
		default:
			return fmt.Errorf("a key of an unknown kind, %T", key)
		}
	}
	return nil
}

// verify returns nil when a client CA signed the first of chain for usage.
func (set *certificateSet) verify(chain []*x509.Certificate, usage x509.ExtKeyUsage) error {
	if len(chain) == 0 || set.clients == nil {
		return errors.New("no certificate, or no CA to check it with")
	}
	if err := measure(chain); err != nil {
		return err
	}
	between := x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: set.clients, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}
