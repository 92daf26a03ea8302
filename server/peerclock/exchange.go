package peerclock

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
)

const (
	// headerBytes is the longest header that is read; a leafd's has 200.
	headerBytes = 4 << 10
	// answerBytes is the longest answer that is read; a leafd's has 600.
	answerBytes = 16 << 10
)

// question is what is asked of a peer: a path, and the longest answer to it that is read. With
// refusals an answer 503 counts too.
type question struct {
	path     string
	most     int
	refusals bool
}

// trip is a request and its answer.
type trip struct {
	sent, received clock.Reading
	body           []byte
}

// exchange asks one peer, and again where it speaks the other protocol.
func (c *Client) exchange(ctx context.Context, q question, address, host string) (trip, error) {
	secure := c.cfg.Secure != PlainFirst
	x, err := c.attempt(ctx, q, address, host, secure)
	if err == nil || c.cfg.Secure == TLSOnly || !errors.Is(err, errProtocol) {
		return x, err
	}
	second, serr := c.attempt(ctx, q, address, host, !secure)
	if ctx.Err() != nil || errors.Is(serr, errNoTLS) {
		return trip{}, err // the first was the right protocol
	}
	return second, serr
}

// errProtocol is the class of errors that may come from plain HTTP to a peer that speaks TLS, or the
// other way round.
var errProtocol = errors.New("in this protocol")

// errNoTLS is the class of errors of a handshake in which the peer spoke no TLS.
var errNoTLS = errors.New("no TLS")

// classified is an error with classes that don't appear in its text.
type classified struct {
	error
	classes []error
}

// Unwrap returns the error and its classes.
func (m classified) Unwrap() []error { return append([]error{m.error}, m.classes...) }

func wrongProtocol(err error) error { return classified{err, []error{errProtocol}} }

// attempt asks one peer. The round trip begins once there is a connection: a long
// handshake says nothing about the clock.
//
// It reads the answer with fasthttp, but not with fasthttp's client, which takes no
// context, retries by itself, and includes connecting in the time.
func (c *Client) attempt(ctx context.Context, q question, address, host string, secure bool) (trip, error) {
	clk := c.cfg.Clock
	nc, err := c.cfg.Dial(ctx, "tcp", address)
	if err != nil {
		return trip{}, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer nc.Close() //nolint:errcheck // nothing was written that could be lost
	// A deadline in the past aborts reads and writes; no other deadline is set.
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	spoken := nc
	if secure {
		over := tls.Client(nc, c.cfg.TLS)
		if err := over.HandshakeContext(ctx); err != nil {
			return trip{}, noTLS(err, address)
		}
		spoken = over
	}
	counting := &counted{Conn: spoken, most: q.most}

	x := trip{sent: read(clk)}
	if _, err := io.WriteString(counting, "GET "+q.path+" HTTP/1.1\r\nHost: "+host+"\r\nUser-Agent: leafd\r\nAccept: application/json\r\nConnection: close\r\n\r\n"); err != nil {
		return trip{}, fmt.Errorf("%w from %s: %w", ErrUnreachable, address, own(err))
	}
	resp := fasthttp.AcquireResponse()
	defer fasthttp.ReleaseResponse(resp)
	err = resp.ReadLimitBody(bufio.NewReaderSize(counting, headerBytes), q.most)
	// The time is that of the answer's end: a peer that pauses within it makes the
	// round trip longer, but not the offset wrong.
	x.received = read(clk)
	if err != nil {
		return trip{}, counting.explain(err, address)
	}
	if status := resp.StatusCode(); status != fasthttp.StatusOK && (!q.refusals || status != fasthttp.StatusServiceUnavailable) {
		err := fmt.Errorf("%w: its status is not 200, from %s", ErrAnswer, address)
		if resp.StatusCode() == fasthttp.StatusBadRequest { // what TLS servers answer to plain HTTP
			err = wrongProtocol(err)
		}
		return trip{}, err
	}
	if kind, _, _ := strings.Cut(string(resp.Header.ContentType()), ";"); !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
		return trip{}, fmt.Errorf("%w: it is not application/json, from %s", ErrAnswer, address)
	}
	x.body = append([]byte(nil), resp.Body()...)
	return x, nil
}

// wide is how long a reading of our clocks may take.
const wide = 10 * time.Millisecond

// read reads our clocks, repeatedly if necessary. They are read one after the other: if
// the process is descheduled in between, it looks like a suspend.
func read(clk clock.Clock) clock.Reading {
	r := clk.Read()
	for range 10 {
		if clk.Mono()-r.Mono < wide {
			break
		}
		r = clk.Read()
	}
	return r
}

// errLong is returned for an answer that is too long.
var errLong = errors.New("too long an answer")

// counted records how much was read from a connection, most at most, and its error.
type counted struct {
	net.Conn
	most  int
	bytes int
	err   error
}

// Read reads from the connection.
func (c *counted) Read(p []byte) (int, error) {
	if c.bytes > c.most {
		return 0, errLong
	}
	n, err := c.Conn.Read(p)
	c.bytes += n
	c.err = err
	return n, err
}

// explain distinguishes a peer that is gone from one that speaks another protocol. It
// leaves out the text of fasthttp's error, which quotes kilobytes of the answer.
func (c *counted) explain(err error, address string) error {
	switch {
	case c.err != nil && !errors.Is(c.err, io.EOF):
		return wrongProtocol(fmt.Errorf("%w from %s: %w", ErrUnreachable, address, own(c.err)))
	case c.bytes == 0:
		return wrongProtocol(fmt.Errorf("%w from %s: it closed the connection", ErrUnreachable, address))
	case errors.Is(err, fasthttp.ErrBodyTooLarge), c.bytes > c.most:
		return fmt.Errorf("%w: longer than %d KiB, from %s", ErrAnswer, c.most>>10, address)
	}
	return wrongProtocol(fmt.Errorf("%w: no HTTP response, or not all of one, from %s", ErrAnswer, address))
}

// own returns err if it is this machine's, or of TLS's list of alerts, and else a fixed text: errors of TLS
// and of certificates quote what the peer sent.
func own(err error) error {
	var network *net.OpError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &network):
		return network
	case errors.As(err, &authority):
		return errors.New("no CA that this daemon trusts has signed its certificate")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return errors.New("its certificate has expired, or is not valid yet")
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return errors.New("its certificate is not for a server")
	}
	return errors.New("no handshake that we accept")
}

// noTLS returns the error of a handshake that failed.
func noTLS(err error, address string) error {
	var record tls.RecordHeaderError
	var network *net.OpError
	switch {
	case errors.As(err, &record):
		return classified{fmt.Errorf("%w: it speaks no TLS, from %s", ErrAnswer, address), []error{errProtocol, errNoTLS}}
	case errors.As(err, &network) && network.Op != "remote error", errors.Is(err, io.EOF):
		return classified{fmt.Errorf("%w from %s: TLS: %w", ErrUnreachable, address, own(err)), []error{errNoTLS}}
	}
	return fmt.Errorf("%w from %s: TLS: %w", ErrUnreachable, address, own(err))
}

// checkAddress returns address as it goes into the Host header. It returns ErrAddress for
// one that is not asked, or could mean something else to the resolver.
func (c *Client) checkAddress(address string) (string, error) {
	refuse := func(why string) (string, error) {
		return "", fmt.Errorf("%w: %s: %s", ErrAddress, shorten(address), why)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return refuse("want ip:port")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return refuse("the port is a number from 1 to 65535")
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && !c.cfg.Named && !isPeers(ip.Unmap(), c.cfg.Own.Unmap()):
		return refuse("no other machine reaches a peer there")
	case err == nil:
		return net.JoinHostPort(ip.WithZone("").String(), port), nil
	case !c.cfg.Named, host == "", len(host) > 253, strings.IndexFunc(host, notInName) >= 0:
		return refuse("the host is not an IP address")
	}
	return address, nil
}

// isPeers reports whether a peer of the daemon at own may have the address ip.
func isPeers(ip, own netip.Addr) bool {
	return ip.Zone() == "" && !ip.IsUnspecified() && !ip.IsMulticast() &&
		(!ip.IsLoopback() || own.IsLoopback()) && (!ip.IsLinkLocalUnicast() || own.IsLinkLocalUnicast())
}

// shorten returns the beginning of an untrusted text, safe to print; an address as it is.
func shorten(address string) string {
	const most = 64
	if len(address) > most {
		address = address[:most] + "..."
	}
	return strings.Trim(strconv.QuoteToASCII(address), `"`)
}

func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_'
}
