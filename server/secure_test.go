package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/test/certtest"
)

// overTLS returns r as it is asked at a TLS listener.
func (r *running) overTLS(ln net.Listener, conf *tls.Config) *running {
	transport := &http.Transport{
		TLSClientConfig: conf,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			d := tls.Dialer{Config: conf}
			return d.DialContext(ctx, "tcp", ln.Addr().String())
		},
	}
	r.t.Cleanup(transport.CloseIdleConnections)
	// The client's scheme is http, so that do works; the connection is TLS all the same.
	transport.DialContext = transport.DialTLSContext
	return &running{t: r.t, last: r.last, Server: r.Server, addr: "leafd", log: r.log, client: &http.Client{Transport: transport}, table: r.table, flake: r.flake}
}

// secured is a server with a TLS listener.
type secured struct {
	*running
	ca           *certtest.Authority
	certificates *conn.Certificates
	files        conn.CertificateFiles
	ln           net.Listener
	clean        net.Listener // ln without TLS
}

// writePair writes a pair into dir, and returns where.
func writePair(t *testing.T, dir string, p certtest.Pair) conn.CertificateFiles {
	t.Helper()
	return conn.CertificateFiles{Cert: certtest.Write(t, dir, "tls.crt", p.Cert), Key: certtest.Write(t, dir, "tls.key", p.Key)}
}

// startSecure serves on a TLS listener; with clients each needs a certificate.
func startSecure(t *testing.T, clients bool, change func(*Config)) *secured {
	t.Helper()
	s := &secured{ca: certtest.New(t, "ca")}
	dir := t.TempDir()
	s.files = writePair(t, dir, s.ca.Issue(t, "leafd"))
	if clients {
		s.files.ClientCA = certtest.Write(t, dir, "ca.crt", s.ca.PEM)
	}
	var err error
	s.certificates, err = conn.OpenCertificates(s.files, 0, func(string, time.Time) {})
	require.NoError(t, err)
	s.running = start(t, change)
	s.clean = listenTCP(t)
	s.ln = conn.Secured(s.clean, s.certificates.Server(clients))
	s.also(s.ln, conn.Public)
	return s
}

// dialTCP opens a connection to the TLS port, without TLS.
func (s *secured) dialTCP() net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.ln.Addr().String())
	require.NoError(s.t, err)
	require.NoError(s.t, c.SetDeadline(time.Now().Add(time.Minute)))
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *secured) dialTLS(conf *tls.Config) *tls.Conn {
	s.t.Helper()
	conf = conf.Clone()
	conf.ServerName = "localhost"
	c := tls.Client(s.dialTCP(), conf)
	require.NoError(s.t, c.HandshakeContext(s.t.Context()))
	return c
}

func TestServesOverTLS(t *testing.T) {
	s := startSecure(t, false, nil)
	client := s.overTLS(s.ln, s.ca.Client(t))
	require.Len(t, unique(t, strings.Fields(client.get("/api/snowflake/get/x?n=10000").body)), 10_000)
	c := s.dialTLS(s.ca.Client(t))
	require.GreaterOrEqual(t, c.ConnectionState().Version, uint16(tls.VersionTLS12))
	send(t, c, oneID+oneID) // pipelined
	br := newReader(c)
	for range 2 {
		require.Equal(t, 200, next(t, br).status)
	}

	old := s.ca.Client(t)
	old.MinVersion, old.MaxVersion, old.ServerName = tls.VersionTLS10, tls.VersionTLS11, "localhost"
	require.ErrorContains(t, tls.Client(s.dialTCP(), old).HandshakeContext(t.Context()), "protocol version")
	stranger := s.ca.Client(t)
	stranger.RootCAs, stranger.ServerName = x509.NewCertPool(), "localhost"
	err := tls.Client(s.dialTCP(), stranger).HandshakeContext(t.Context())
	var unknown x509.UnknownAuthorityError
	require.ErrorAs(t, err, &unknown)
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "a TLS handshake failed") }, time.Minute, time.Millisecond)
}

// It is told what is wrong, and no answer is counted for what was no request.
func TestPlainHTTPWhereTLSIsSpoken(t *testing.T) {
	s := startSecure(t, false, nil)
	for _, request := range []string{oneID, "POST /api/segments HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000), "DELETE /x HTTP/1.1\r\n\r\n"} {
		c := s.dialTCP()
		send(t, c, request)
		br := newReader(c)
		next(t, br).requireError(t, 400, "tls_required")
		_, err := br.ReadByte()
		require.EqualError(t, err, "EOF")
	}
	before := s.get("/metrics").body
	for _, nonsense := range []string{"\x00\x00\x00\x00\x00\x00", "SSH-2.0-x\r\n", "\x16\x03\x01\x00\x05hello"} {
		c := s.dialTCP()
		send(t, c, nonsense)
		text, _ := io.ReadAll(c) // it may be reset
		require.NotContains(t, string(text), "HTTP")
	}
	require.Equal(t, linesOf(before, "leafd_http_errors_total"), linesOf(s.get("/metrics").body, "leafd_http_errors_total"))
	require.Zero(t, s.used())
}

func linesOf(text, prefix string) (lines []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, line)
		}
	}
	return lines
}

// A handshake that has too much is given up before it is looked at.
func TestLongHandshakes(t *testing.T) {
	s := startSecure(t, true, patient)
	c := s.dialTCP()
	record := "\x16\x03\x01\x40\x00" + "\x01\x00\xf0\x00" + strings.Repeat("\x00", 16<<10-4) // of a message of 60 KiB
	send(t, c, record+"\x16\x03\x01\x40\x00"+strings.Repeat("\x00", 16<<10))
	_, _ = io.Copy(io.Discard, c) // it may be reset
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "a handshake has more than 32 KiB") }, time.Minute, time.Millisecond)
}

// chain returns leaf with others behind it, as they are sent.
func chain(leaf certtest.Pair, others ...certtest.Pair) certtest.Pair {
	for _, other := range others {
		leaf.Cert = append(leaf.Cert, other.Cert...)
	}
	return leaf
}

func TestClientCertificates(t *testing.T) {
	s := startSecure(t, true, nil)
	other := certtest.New(t, "other")
	ended := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) }
	for _, test := range []struct {
		name  string
		pairs []certtest.Pair
		good  bool
	}{
		{"signed by the CA", []certtest.Pair{s.ca.Issue(t, "alice")}, true},
		{"none", nil, false},
		{"of another CA", []certtest.Pair{other.Issue(t, "mallory")}, false},
		{"ended", []certtest.Pair{s.ca.Issue(t, "bob", ended)}, false},
		{"with three that are of no use", []certtest.Pair{chain(s.ca.Issue(t, "carol"), other.Issue(t, "a"), other.Issue(t, "b"), other.Issue(t, "c"))}, true},
		{"with four", []certtest.Pair{chain(s.ca.Issue(t, "dave"), other.Issue(t, "a"), other.Issue(t, "b"), other.Issue(t, "c"), other.Issue(t, "d"))}, false},
		{"two of one subject", []certtest.Pair{chain(s.ca.Issue(t, "erin"), other.Issue(t, "a"), other.Issue(t, "a"))}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			conf := s.ca.Client(t, test.pairs...)
			// The server gets this, even if it asked for something else.
			conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if len(conf.Certificates) == 0 {
					return &tls.Certificate{}, nil
				}
				return &conf.Certificates[0], nil
			}
			c := s.dialTLS(conf)
			// A server that refuses may have closed by now, which the write is told of; its
			// alert has arrived all the same.
			_, sent := io.WriteString(c, oneID)
			resp, err := http.ReadResponse(newReader(c), nil)
			if test.good {
				require.NoError(t, errors.Join(sent, err))
				require.Equal(t, 200, readAnswer(t, resp).status)
				return
			}
			require.ErrorContains(t, err, "tls: ")
		})
	}
	require.Equal(t, 2, s.used())
}

// A client CA that is taken away shuts its clients out, tickets or not; a client that
// is connected at its next request.
func TestClientCAChanges(t *testing.T) {
	s := startSecure(t, true, nil)
	conf := s.ca.Client(t, s.ca.Issue(t, "alice"))
	conf.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	stays := s.dialTLS(conf)
	br := newReader(stays)
	ask := func(c net.Conn) error {
		_, _ = io.WriteString(c, oneID) // a refusal may be here first: the answer says
		r := newReader(c)
		if c == net.Conn(stays) {
			r = br
		}
		resp, err := http.ReadResponse(r, nil)
		if err == nil {
			readAnswer(t, resp)
		}
		return err
	}
	require.NoError(t, ask(stays))
	require.NoError(t, ask(s.dialTLS(conf)))
	other := certtest.New(t, "other")
	certtest.Write(t, strings.TrimSuffix(s.files.ClientCA, "/ca.crt"), "ca.crt", other.PEM)
	s.certificates.Look()
	require.ErrorContains(t, ask(s.dialTLS(conf)), "tls: ")
	require.ErrorIs(t, ask(stays), io.ErrUnexpectedEOF)
	require.Contains(t, s.log.String(), `"certificate":"CN=alice"`)
	stays = s.dialTLS(s.ca.Client(t, other.Issue(t, "bob")))
	br = newReader(stays)
	require.NoError(t, ask(stays))
	writePair(t, strings.TrimSuffix(s.files.ClientCA, "/ca.crt"), s.ca.Issue(t, "leafd again"))
	s.certificates.Look()
	require.NoError(t, ask(stays), "its CA is in use still")
}
