// Package peerclock asks other leafds for their clocks: GET /api/clock, each on a
// connection of its own, many at once.
package peerclock

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/clock"
)

// Sentinels of this package. The Err of a Sample wraps one of them, with the address and
// what failed.
var (
	// ErrAddress is for an address that no peer has. It is not asked.
	ErrAddress = errors.New("not a peer's address")
	// ErrUnreachable is for a peer that refused the connection or did not answer in
	// time.
	ErrUnreachable = errors.New("no answer")
	// ErrAnswer is for an answer that can't have come from a leafd.
	ErrAnswer = errors.New("the answer is not a leafd's clock")
	// ErrStepped is for a peer that was asked twice: both times our own clock stepped,
	// or the machine was suspended.
	ErrStepped = errors.New("our own clock stepped meanwhile")
)

const (
	// DefaultTimeout bounds connection and answer of one peer.
	DefaultTimeout = time.Second
	// MaxTimeout is the longest Timeout: half of it is how wrong an offset can be.
	MaxTimeout = time.Minute
	// DefaultParallel is how many peers a Client asks at once: a thousand silent ones
	// take eight seconds.
	DefaultParallel = 128
)

// Config is what a Client needs. Zero values get the default.
type Config struct {
	// Clock is our own, with which the peers' are compared. Required.
	Clock clock.Clock
	// Timeout bounds connection and answer of one peer; it is also the longest round
	// trip of a sample.
	Timeout time.Duration
	// Parallel is how many peers are asked at once, by all calls of Probe together.
	Parallel int
	// Own is our own address among the peers.
	Own netip.Addr
	// Named says that an operator has typed the addresses: all are asked, host names too.
	Named bool
	// TLS is used for peers that serve TLS. With nil we present no certificate and
	// verify none, and an answer is worth no more than over plain HTTP.
	TLS *tls.Config
	// Dial makes connections; nil for net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Secure says whether TLS or plain HTTP is tried first, and whether the other is
	// tried at all: while a cluster migrates to TLS, it has peers of both kinds.
	Secure Secure
}

// Secure is a choice between TLS and plain HTTP.
type Secure uint8

const (
	// PlainFirst tries TLS where a peer doesn't speak plain HTTP.
	PlainFirst Secure = iota
	// TLSFirst tries plain HTTP where a peer doesn't speak TLS.
	TLSFirst
	// TLSOnly accepts no answer over plain HTTP, which any machine on the network path
	// could have sent.
	TLSOnly
)

// Client asks peers. It is safe for concurrent use, and has no open connection between
// two calls.
type Client struct {
	cfg   Config        // immutable
	slots chan struct{} // holds a token for each peer that is being asked
}

// Class returns the sentinel that the Err of a sample wraps: what may be shown to every
// client. The rest of it tells which ports of which machines are open.
func Class(err error) error {
	for _, class := range []error{ErrAddress, ErrAnswer, ErrStepped} {
		if errors.Is(err, class) {
			return class
		}
	}
	return ErrUnreachable
}

var _ clock.Prober = (*Client)(nil)

// New returns a Client. It returns an error for a Config without Clock, and for TLSOnly without TLS.
func New(cfg Config) (*Client, error) {
	if cfg.Clock == nil {
		return nil, errors.New("peerclock: Config needs Clock")
	}
	cfg.Timeout = min(cmp.Or(cfg.Timeout, DefaultTimeout), MaxTimeout)
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	cfg.Parallel = cmp.Or(cfg.Parallel, DefaultParallel)
	if cfg.TLS == nil {
		if cfg.Secure == TLSOnly {
			return nil, errors.New("TLSOnly needs Config.TLS, which says what to believe")
		}
		cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true} //nolint:gosec // as plain HTTP: see Config.TLS
	}
	return &Client{cfg, make(chan struct{}, cfg.Parallel)}, nil
}

// Probe asks all addresses (ip:port; an IPv6 one in brackets) for their clocks,
// and returns one sample each, in the order given. The addresses are what others wrote
// into the registry, and may lead to any machine. It keeps:
//
//  1. Every sample has either an Err, or an Offset and RTT of one exchange
//     during which our own clock did not step.
//  2. An answer that isn't known to be a leafd's clock is an Err, never an
//     Offset: a proxy's page, a redirect, another service on that port.
//  3. The true offset is within RTT/2 (and half a millisecond, and
//     stepTolerance) of Offset, and RTT is at most Timeout.
//  4. A peer costs at most twice Timeout, and at any moment answerBytes and
//     one connection, which is closed before Probe returns; it can't make Probe connect
//     to any other host. Parallel of them are asked at once.
//  5. With TLSOnly nothing is sent to a peer, and nothing is read from it,
//     before Config.TLS has verified it.
//  6. Nothing of an answer that isn't a leafd's clock is in a sample, nor of the
//     certificate of one: a writer of peers' addresses must not read other services through us.
//  7. Only the address of one machine is asked: no host name, no multicast. One that is loopback or
//     link-local is another machine to each of its readers, and reaches what is open to that machine alone:
//     it is asked only where Config.Own is of that kind, too.
//
// When ctx ends, the peers that have not answered by then are ErrUnreachable.
func (c *Client) Probe(ctx context.Context, addresses []string) []clock.Sample {
	samples := make([]clock.Sample, len(addresses))
	c.each(addresses, func(i int) { samples[i] = c.ask(ctx, addresses[i]) })
	return samples
}

// Answer is what a peer said to Fetch: JSON, or Err.
type Answer struct {
	Body []byte
	Err  error
}

// Fetch asks all addresses for path, as Probe does, and returns the answers in the order given. One of
// more than most bytes is an Err; the status 503 is not, with which a daemon says that it isn't ready.
func (c *Client) Fetch(ctx context.Context, addresses []string, path string, most int) []Answer {
	answers := make([]Answer, len(addresses))
	c.each(addresses, func(i int) {
		host, err := c.checkAddress(addresses[i])
		if err != nil {
			answers[i].Err = err
			return
		}
		bounded, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
		defer cancel()
		x, err := c.exchange(bounded, question{path, most, true}, addresses[i], host)
		if err != nil && bounded.Err() != nil {
			err = fmt.Errorf("%w from %s within %s", ErrUnreachable, addresses[i], c.cfg.Timeout)
		}
		answers[i] = Answer{x.body, err}
	})
	return answers
}

// each calls one for the index of each address, Parallel at once.
func (c *Client) each(addresses []string, one func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(len(addresses), c.cfg.Parallel) {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(addresses) {
					return
				}
				c.slots <- struct{}{}
				one(i)
				<-c.slots
			}
		})
	}
	all.Wait()
}

// ask asks one peer, and again if our own clock stepped the first time.
func (c *Client) ask(ctx context.Context, address string) clock.Sample {
	host, err := c.checkAddress(address)
	if err != nil {
		return clock.Sample{Address: shorten(address), Err: err}
	}
	s := c.once(ctx, address, host)
	if errors.Is(s.Err, ErrStepped) {
		s = c.once(ctx, address, host)
	}
	return s
}

// stepTolerance is how far our clocks may have moved against each other during an
// exchange. They are not read at the same instant, so that on a busy machine they seem to
// have moved by some milliseconds. It is small compared to a threshold of seconds.
const stepTolerance = 100 * time.Millisecond

// once is one exchange with one peer.
func (c *Client) once(ctx context.Context, address, host string) clock.Sample {
	s := clock.Sample{Address: address}
	bounded, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	x, err := c.exchange(bounded, question{path: "/api/clock", most: answerBytes}, address, host)
	if err != nil {
		switch {
		case ctx.Err() != nil:
			err = fmt.Errorf("%w from %s: given up: %w", ErrUnreachable, address, ctx.Err())
		case bounded.Err() != nil:
			err = fmt.Errorf("%w from %s within %s", ErrUnreachable, address, c.cfg.Timeout)
		}
		s.Err = err
		return s
	}
	rtt := x.received.Mono - x.sent.Mono
	step := clock.Judge(x.sent, x.received)
	switch {
	case step.By.Abs() > stepTolerance || step.Suspended > stepTolerance:
		s.Err = fmt.Errorf("%w: by %s, after %s of sleep, while %s was asked", ErrStepped,
			step.By.Round(time.Millisecond), step.Suspended.Round(time.Millisecond), address)
		return s
	case rtt > c.cfg.Timeout:
		s.Err = fmt.Errorf("%w from %s within %s: it took %s", ErrUnreachable, address, c.cfg.Timeout, rtt.Round(time.Millisecond))
		return s
	}
	a, err := parseAnswer(x.body)
	if err != nil {
		s.Err = fmt.Errorf("%w, from %s", err, address)
		return s
	}
	s.Node, s.Owner, s.RTT = a.node, a.owner, rtt
	s.Cluster, s.WorkerID, s.Since, s.SlotsLent = a.cluster, a.workerID, a.since, a.slotsLent
	s.Offset = offset(a.timestamp, x.received, rtt)
	return s
}

// farthest is the largest offset in milliseconds: together with half a round trip, a
// larger one would overflow a time.Duration (292 years).
const farthest = (1<<63 - 1 - int64(MaxTimeout)) / int64(time.Millisecond)

// offset returns how far peer is ahead of our wall clock: peer + rtt/2 - received.
//
// Peers send whole milliseconds, rounded down: on average they are half a millisecond
// further. Without that half, equal clocks would seem to differ, always to one side.
func offset(peer clock.Millis, received clock.Reading, rtt time.Duration) time.Duration {
	const half = time.Millisecond / 2
	wall := received.Wall()
	within := received.WallNS - int64(wall)*int64(time.Millisecond)
	difference := min(max(int64(peer-wall), -farthest), farthest)
	return time.Duration(difference)*time.Millisecond - time.Duration(within) + half + rtt/2
}
