package zookeepertest

import (
	"crypto/x509"
	"strconv"
	"testing"

	"github.com/leafd/leafd/test/certtest"

	"github.com/leafd/leafd/test/proctest"
)

// TLSServer is a server that takes TLS connections too, on a port of their own.
// Addr is the plain port.
type TLSServer struct {
	*Server

	// PEM files, gone with the test.
	CA        string // of the authority that signed what follows, and the server's certificate
	Cert      string // of a client, with its key
	OtherCA   string // of an authority that signed nothing of this server
	OtherCert string // of a client, signed by it, with its key
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
	proctest.SkipInShort(t)
	directory := t.TempDir()
	client := func(name string) (signer *certtest.Authority, ca, cert string) {
		signer = certtest.New(t, name)
		pair := signer.Issue(t, "client")
		file := func(kind string, text []byte) string { return certtest.Write(t, directory, name+"-"+kind+".pem", text) }
		return signer, file("ca", signer.PEM), file("client", append(pair.Cert, pair.Key...))
	}
	s := &TLSServer{}
	var signer *certtest.Authority
	_, s.OtherCA, s.OtherCert = client("other")
	signer, s.CA, s.Cert = client("ours")
	pair := signer.Issue(t, "server", func(template *x509.Certificate) { template.IPAddresses = nil })
	port, err := proctest.FreePort()
	proctest.Must(t, err)
	clientAuth := "none"
	if clientCert {
		clientAuth = "need"
	}
	s.Server, err = launch(&Server{securePort: port}, 0,
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"secureClientPort="+strconv.Itoa(port),
		"secureClientPortAddress=127.0.0.1",
		"ssl.keyStore.location="+certtest.Write(t, directory, "server.pem", append(pair.Key, pair.Cert...)),
		"ssl.keyStore.type=PEM",
		"ssl.trustStore.location="+s.CA,
		"ssl.trustStore.type=PEM",
		"ssl.clientAuth="+clientAuth,
		"ssl.hostnameVerification=false", // of clients
	)
	proctest.Must(t, err)
	s.RemoveAfter(t)
	return s
}
