package peerclock

import (
	"bufio"
	"context"
	"crypto/tls"
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
	// answerBytes is the longest body that is read.
	answerBytes = 64 << 10
	// path asks for the clock alone: the list of the peer's own peers grows
	// with the cluster, and nobody reads it here.
	path = "/api/clock?peers=no"
)

// trip is a request and its answer.
type trip struct {
	sent, received clock.Reading
	body           []byte
}

// exchange asks one peer, and once more where it speaks the other language.
func (c *Client) exchange(ctx context.Context, address, host string) (trip, error) {
	secure := c.cfg.Secure != PlainFirst
	x, err := c.attempt(ctx, address, host, secure)
	if err == nil || c.cfg.Secure == TLSOnly || !errors.Is(err, errLanguage) {
		return x, err
	}
	second, serr := c.attempt(ctx, address, host, !secure)
	if ctx.Err() != nil || errors.Is(serr, errNoTLS) {
		return trip{}, err // which was its language
	}
	return second, serr
}

// errLanguage marks the failures that may come from asking in plain HTTP who speaks
// TLS, or the other way round.
var errLanguage = errors.New("in this language")

// errNoTLS marks the failures of a handshake in which the peer spoke no TLS.
var errNoTLS = errors.New("no TLS")

// marked is an error with marks that its text doesn't show.
type marked struct {
	error
	marks []error
}

// Unwrap returns the error and its marks.
func (m marked) Unwrap() []error { return append([]error{m.error}, m.marks...) }

func language(err error) error { return marked{err, []error{errLanguage}} }

// attempt asks one peer. The round trip begins once there is a connection: a
// handshake that took long says nothing of the clock.
//
// It reads the answer with fasthttp and does without its client, which takes no
// context, resends by itself, and counts the connecting in.
func (c *Client) attempt(ctx context.Context, address, host string, secure bool) (trip, error) {
	clk := c.cfg.Clock
	var dialer net.Dialer
	nc, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return trip{}, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer nc.Close() //nolint:errcheck // nothing was written that could be lost
	// A deadline in the past ends what is under way; there is no other one.
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
	heard := &counted{Conn: spoken}

	x := trip{sent: read(clk)}
	if _, err := io.WriteString(heard, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\nUser-Agent: leafd\r\nAccept: application/json\r\nConnection: close\r\n\r\n"); err != nil {
		return trip{}, fmt.Errorf("%w from %s: %w", ErrUnreachable, address, err)
	}
	resp := fasthttp.AcquireResponse()
	defer fasthttp.ReleaseResponse(resp)
	err = resp.ReadLimitBody(bufio.NewReaderSize(heard, headerBytes), answerBytes)
	// The time at the end of the answer, not at its beginning: a peer that
	// hesitates in between makes the round trip longer, and not the offset wrong.
	x.received = read(clk)
	if err != nil {
		return trip{}, heard.explain(err, address)
	}
	if resp.StatusCode() != fasthttp.StatusOK {
		err := fmt.Errorf("%w: HTTP status %d, from %s", ErrAnswer, resp.StatusCode(), address)
		if resp.StatusCode() == fasthttp.StatusBadRequest { // what servers of TLS answer plain HTTP
			err = language(err)
		}
		return trip{}, err
	}
	if kind, _, _ := strings.Cut(string(resp.Header.ContentType()), ";"); !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
		return trip{}, fmt.Errorf("%w: content type %s, from %s", ErrAnswer, quote([]byte(kind)), address)
	}
	x.body = append([]byte(nil), resp.Body()...)
	return x, nil
}

// wide is how long a reading of our clocks may take.
const wide = 10 * time.Millisecond

// read reads our clocks, a few times if need be. They are read one after the
// other: where the machine has us wait in between, it looks like a suspend.
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

// counted remembers what a connection gave before it failed.
type counted struct {
	net.Conn
	bytes int
	err   error
}

// Read reads from the connection.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes += n
	c.err = err
	return n, err
}

// explain tells a peer that is gone from one that speaks another language. The
// text of fasthttp's error is left out: it quotes kilobytes of what was sent.
func (c *counted) explain(err error, address string) error {
	switch {
	case c.err != nil && !errors.Is(c.err, io.EOF):
		return language(fmt.Errorf("%w from %s: %w", ErrUnreachable, address, c.err))
	case c.bytes == 0:
		return language(fmt.Errorf("%w from %s: it closed the connection", ErrUnreachable, address))
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return fmt.Errorf("%w: longer than %d KiB, from %s", ErrAnswer, answerBytes>>10, address)
	}
	return language(fmt.Errorf("%w: %d bytes that are no HTTP response, or not all of one, from %s", ErrAnswer, c.bytes, address))
}

// noTLS is the error of a handshake that failed.
func noTLS(err error, address string) error {
	var record tls.RecordHeaderError
	var network *net.OpError
	switch {
	case errors.As(err, &record):
		return marked{fmt.Errorf("%w: it speaks no TLS, from %s", ErrAnswer, address), []error{errLanguage, errNoTLS}}
	case errors.As(err, &network) && network.Op != "remote error", errors.Is(err, io.EOF):
		return marked{fmt.Errorf("%w from %s: TLS: %w", ErrUnreachable, address, err), []error{errNoTLS}}
	}
	return fmt.Errorf("%w from %s: TLS: %w", ErrUnreachable, address, err)
}

// checkAddress returns address as it goes into the Host header. Everything that
// could mean something else there, or to the resolver, is ErrAddress.
func checkAddress(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("%w: %s: want host:port", ErrAddress, quote([]byte(address)))
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%w: %s: the port is a number from 1 to 65535", ErrAddress, quote([]byte(address)))
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return net.JoinHostPort(ip.WithZone("").String(), port), nil
	}
	if host == "" || len(host) > 253 || strings.IndexFunc(host, notInName) >= 0 {
		return "", fmt.Errorf("%w: %s: the host is neither an IP address nor a name", ErrAddress, quote([]byte(address)))
	}
	return address, nil
}

func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_'
}
