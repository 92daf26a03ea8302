package zksession

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// dialer opens the connections of one session, one at a time, and knows how they
// fared. Its connections are wires.
type dialer struct {
	asked    time.Duration      // Immutable: session timeout asked for
	tls      *tls.Config        // Immutable; nil: plain
	hosts    *hosts             // Immutable
	gate     *gate              // Immutable
	notifier *notifier          // Immutable
	ctx      context.Context    // Immutable: ends with close
	cancel   context.CancelFunc // Immutable

	mu      sync.Mutex
	wire    *wire             // mu protects: the connection in use, or the last one
	failure error             // mu protects: what went wrong since a server took us in
	lost    error             // mu protects: what ended the last connection that a session had
	auth    error             // mu protects: why the credentials were refused last; nil: they weren't
	told    map[string]string // mu protects: failures by server that were told as events
	turn    map[string]int    // mu protects: which address of a server's name comes next
	refused map[string]bool   // mu protects: servers that hung up on us since one took us in
	contact time.Time         // mu protects: when a server last said something
	id      int64             // mu protects: session of the last greeting; 0: expired
	granted time.Duration     // mu protects: session timeout of the last greeting; 0: none yet
}

func newDialer(cfg Config, h *hosts, g *gate, n *notifier) *dialer {
	d := &dialer{
		asked: cfg.Timeout, tls: cfg.TLS, hosts: h, gate: g, notifier: n,
		told: map[string]string{}, turn: map[string]int{}, refused: map[string]bool{},
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// dial is called by go-zookeeper, from the goroutine that owns the connection.
func (d *dialer) dial(_, server string, _ time.Duration) (net.Conn, error) {
	d.drop(nil) // the wire of an expired session, which go-zookeeper leaves open
	if !d.gate.drained(drainWait) {
		return nil, errors.New("requests of the last connection have not ended yet") // zksession.S2
	}
	limit := d.hosts.patience(d.timeout())
	ctx, cancel := context.WithTimeout(d.ctx, limit)
	defer cancel()
	raw, conn, err := d.connect(ctx, server)
	if err != nil {
		return nil, d.serverFailed(server, err)
	}
	w := &wire{Conn: conn, raw: raw, dialer: d, server: server, patience: limit}
	if err := w.SetDeadline(time.Time{}); err != nil { // it sets the longest that is allowed
		return nil, errors.Join(d.serverFailed(server, err), raw.Close())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return nil, errors.Join(errClosed, raw.Close())
	}
	d.wire = w
	return w, nil
}

// connect opens a connection to one of the addresses that server has at the
// moment. raw is what lies below a TLS connection.
func (d *dialer) connect(ctx context.Context, server string) (raw, conn net.Conn, err error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return nil, nil, err
	}
	addresses, err := d.resolve(ctx, server, host)
	if err != nil {
		return nil, nil, err
	}
	for i, address := range addresses {
		if raw, err = open(ctx, net.JoinHostPort(address, port), len(addresses)-i); err == nil {
			break
		}
	}
	if err != nil || d.tls == nil {
		return raw, raw, bare(err)
	}
	settings := d.tls.Clone()
	if settings.ServerName == "" {
		settings.ServerName = host
	}
	secure := tls.Client(raw, settings)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // of no more use, whatever it says
		return nil, nil, fmt.Errorf("TLS: %w", bare(err))
	}
	return raw, secure, nil
}

// open connects to address, and leaves time for the other left-1 addresses.
func open(ctx context.Context, address string, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", address)
}

// resolve returns the addresses of host, another one first each time: a name may
// stand for several servers, of which one hangs.
func (d *dialer) resolve(ctx context.Context, server, host string) ([]string, error) {
	if _, err := netip.ParseAddr(host); err == nil {
		return []string{host}, nil
	}
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	slices.Sort(addresses)
	d.mu.Lock()
	defer d.mu.Unlock()
	turn, ok := d.turn[server]
	if !ok {
		turn = rand.IntN(len(addresses)) //nolint:gosec // where to start is no secret
	}
	d.turn[server] = turn + 1
	turn %= len(addresses)
	return append(addresses[turn:len(addresses):len(addresses)], addresses[:turn]...), nil
}

// greeted tells that a server took us in, with the session id, or told with the id
// 0 that the session has expired.
func (d *dialer) greeted(server string, id int64, granted time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.id, d.contact, d.failure = id, time.Now(), nil
	if id != 0 {
		d.granted = granted
	}
	clear(d.refused)
	delete(d.told, server)
}

// contacted tells that a server said something.
func (d *dialer) contacted() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.contact = time.Now()
}

// hungUp tells that server closed a connection before it said anything.
func (d *dialer) hungUp(server string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused[server] = true
}

// mayStartOver tells whether to let go of what this session saw (zksession.S7): server
// hung up on us, and no server has said anything for so long that the session is over.
func (d *dialer) mayStartOver(server string) bool {
	timeout := d.timeout()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused[server] && time.Since(d.contact) > timeout
}

// ServerError tells which server an error is about.
type ServerError struct {
	Server string // host:port
	Err    error
}

// Error implements error.
func (e *ServerError) Error() string { return "server " + e.Server + ": " + e.Err.Error() }

// Unwrap returns what happened there.
func (e *ServerError) Unwrap() error { return e.Err }

// serverFailed records that server can't be used, and tells it where that is news.
func (d *dialer) serverFailed(server string, err error) error {
	err = &ServerError{server, err}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return err
	}
	d.failure = err
	if d.told[server] != err.Error() {
		d.told[server] = err.Error()
		d.notifier.raise(Event{Kind: EventServerFailed, Server: server, Err: err})
	}
	return err
}

// bare is err without the addresses of this one connection, which differ each time.
func bare(err error) error {
	if opErr := (*net.OpError)(nil); errors.As(err, &opErr) {
		return fmt.Errorf("%s: %w", opErr.Op, opErr.Err)
	}
	return err
}

// connectionLost records what ended the connection that the session had.
func (d *dialer) connectionLost(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failure, d.lost = err, err
}

// lastLoss returns what ended the last connection that the session had; nil while
// it has the first.
func (d *dialer) lastLoss() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost
}

// authFailed records that the credentials were refused because of err; nil: taken.
func (d *dialer) authFailed(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.auth = err
}

// lastFailure returns what went wrong since a server took us in; nil for nothing.
// Refused credentials come first: all else may come of them.
func (d *dialer) lastFailure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.auth != nil {
		return d.auth
	}
	return d.failure
}

// session returns the ID that the last greeting had.
func (d *dialer) session() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.id
}

// timeout returns the session timeout as granted, or as asked for.
func (d *dialer) timeout() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.granted > 0 {
		return d.granted
	}
	return d.asked
}

// server returns the server of the connection in use, or of the last one.
func (d *dialer) server() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wire == nil {
		return ""
	}
	return d.wire.server
}

// uses tells whether w is the connection in use.
func (d *dialer) uses(w *wire) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wire == w
}

// drop closes the connection in use, because of reason.
func (d *dialer) drop(reason error) {
	d.mu.Lock()
	w := d.wire
	d.mu.Unlock()
	if w != nil {
		w.abort(reason)
	}
}

// close closes the connection, and opens no other.
func (d *dialer) close() {
	d.cancel()
	d.drop(nil)
}
