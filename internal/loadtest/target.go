package loadtest

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// target is one of the daemons.
type target struct {
	name    string // as it was given
	network string // tcp or unix
	address string
	host    string      // for the Host header
	prefix  string      // of the path
	tls     *tls.Config // nil: without
}

// parseTarget parses a URL.
func parseTarget(raw string, config *tls.Config) (target, error) {
	bad := fmt.Errorf("%w: URL %q: want http://host:port, https://host:port or unix:/path", ErrConfig, raw)
	if path, found := strings.CutPrefix(raw, "unix:"); found {
		path = strings.TrimPrefix(path, "//")
		if path == "" {
			return target{}, bad
		}
		return target{name: raw, network: "unix", address: path, host: "localhost"}, nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return target{}, bad
	}
	if u.User != nil {
		return target{}, fmt.Errorf("%w: a URL has a user and password: the daemon asks for none", ErrConfig)
	}
	t := target{name: raw, network: "tcp", host: u.Host, prefix: strings.TrimSuffix(u.EscapedPath(), "/")}
	port := u.Port()
	switch u.Scheme {
	case "http":
		port = cmp.Or(port, "80")
	case "https":
		port = cmp.Or(port, "443")
		if config == nil {
			config = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		t.tls = config.Clone()
		t.tls.ServerName = cmp.Or(t.tls.ServerName, u.Hostname())
		t.tls.NextProtos = []string{"http/1.1"}
	default:
		return target{}, bad
	}
	t.address = net.JoinHostPort(u.Hostname(), port)
	if _, _, err := net.SplitHostPort(t.address); err != nil {
		return target{}, bad // of a bracket, which net/url takes
	}
	return t, nil
}

// request is the bytes that ask t for n IDs.
func (t target) request(mode Mode, key string, n int) []byte {
	path := t.prefix + "/api/" + string(mode) + "/get/" + url.PathEscape(key)
	if n > 1 {
		path += "?n=" + strconv.Itoa(n)
	}
	return []byte("GET " + path + " HTTP/1.1\r\nHost: " + t.host + "\r\n\r\n")
}

// dial connects to t.
func (t target) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	raw, err := d.DialContext(ctx, t.network, t.address)
	if err != nil || t.tls == nil {
		return raw, err
	}
	secured := tls.Client(raw, t.tls)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error is the one that counts
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return secured, nil
}
