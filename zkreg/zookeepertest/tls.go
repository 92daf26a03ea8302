package zookeepertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TLSServer is a server that takes TLS connections too, on a port of their own.
// Addr is the plain port.
type TLSServer struct {
	*Server

	// PEM files, gone with the test.
	CA            string // of the authority that signed what follows
	Cert, Key     string // of a client
	OtherCA       string // of an authority that signed nothing of this server
	OtherCert     string // of a client, signed by it
	OtherKey      string
	ServerPEM     string // the server's certificate and key; it is for the name localhost only
	requireClient bool
}

// SecureAddr returns the host:port for TLS, with the name in the certificate.
func (s *TLSServer) SecureAddr() string { return "localhost:" + strconv.Itoa(s.securePort) }

// SecureAddrByIP returns the host:port for TLS with an address, which isn't in the
// certificate.
func (s *TLSServer) SecureAddrByIP() string { return "127.0.0.1:" + strconv.Itoa(s.securePort) }

// StartTLS returns a server with a port for TLS, for this test alone. With
// clientCert it takes only clients with a certificate of CA.
func StartTLS(t testing.TB, clientCert bool) *TLSServer {
	t.Helper()
	skipInShort(t)
	s := &TLSServer{requireClient: clientCert}
	if err := s.makeFiles(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.Server, err = launch(0, s.settings); err != nil {
		t.Fatal(err)
	}
	s.removeAfter(t)
	return s
}

// settings takes a port for TLS, and returns the lines of the configuration.
func (s *TLSServer) settings(server *Server) ([]string, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	server.securePort = ports[0]
	clientAuth := "none"
	if s.requireClient {
		clientAuth = "need"
	}
	return []string{
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"secureClientPort=" + strconv.Itoa(server.securePort),
		"secureClientPortAddress=127.0.0.1",
		"ssl.keyStore.location=" + s.ServerPEM,
		"ssl.keyStore.type=PEM",
		"ssl.trustStore.location=" + s.CA,
		"ssl.trustStore.type=PEM",
		"ssl.clientAuth=" + clientAuth,
		"ssl.hostnameVerification=false", // of clients
	}, nil
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func (s *TLSServer) makeFiles(directory string) error {
	file := func(path *string, name string, blocks ...*pem.Block) error {
		*path = filepath.Join(directory, name)
		var text []byte
		for _, block := range blocks {
			text = append(text, pem.EncodeToMemory(block)...)
		}
		return os.WriteFile(*path, text, 0o600)
	}
	for _, of := range []struct {
		prefix        string
		ca, cert, key *string
		server        *string
	}{
		{"", &s.CA, &s.Cert, &s.Key, &s.ServerPEM},
		{"other-", &s.OtherCA, &s.OtherCert, &s.OtherKey, nil},
	} {
		signer, caBlock, err := newAuthority(of.prefix + "test authority")
		if err != nil {
			return err
		}
		if err := file(of.ca, of.prefix+"ca.pem", caBlock); err != nil {
			return err
		}
		cert, key, err := signer.sign(&x509.Certificate{
			Subject: pkix.Name{CommonName: "client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
		if err != nil {
			return err
		}
		if err := file(of.cert, of.prefix+"client.pem", cert); err != nil {
			return err
		}
		if err := file(of.key, of.prefix+"client.key", key); err != nil {
			return err
		}
		if of.server == nil {
			continue
		}
		cert, key, err = signer.sign(&x509.Certificate{
			Subject: pkix.Name{CommonName: "server"}, DNSNames: []string{"localhost"},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		})
		if err != nil {
			return err
		}
		if err := file(of.server, "server.pem", key, cert); err != nil {
			return err
		}
	}
	return nil
}

func newAuthority(name string) (*authority, *pem.Block, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("zookeepertest: %w", err)
	}
	template := validNow(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("zookeepertest: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("zookeepertest: %w", err)
	}
	return &authority{cert, key}, &pem.Block{Type: "CERTIFICATE", Bytes: der}, nil
}

// sign returns a new key, and the certificate that template makes of it.
func (a *authority) sign(template *x509.Certificate) (cert, key *pem.Block, err error) {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("zookeepertest: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, validNow(template), a.cert, private.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("zookeepertest: %w", err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("zookeepertest: %w", err)
	}
	return &pem.Block{Type: "CERTIFICATE", Bytes: der}, &pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}, nil
}

// validNow fills in what all of the certificates have.
func validNow(template *x509.Certificate) *x509.Certificate {
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(24 * time.Hour)
	return template
}
