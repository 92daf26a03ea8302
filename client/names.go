package client

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

const (
	// lookupEvery is how old the addresses of a name get before it is looked up again.
	lookupEvery = 5 * time.Second
	// lookupPatience bounds how long a request waits for that; the first one waits for RequestTimeout.
	lookupPatience = 100 * time.Millisecond
)

// site is one URL of Config: a daemon, or where it has a name one for each address of the name.
type site struct {
	base      string
	host      string          // empty: an address, or a transport that dials as it likes
	transport *http.Transport // of requests to the site; nil where host is empty
	daemons   []*daemon       // Client.mu protects
}

// newSite returns the site of a base URL, with one daemon until it is looked up.
func (c *Client) newSite(base *url.URL) *site {
	s := &site{base: base.String()}
	s.daemons = []*daemon{{client: c, base: s.base, name: s.base, http: c.http}}
	roundTripper := c.http.Transport
	if roundTripper == nil {
		roundTripper = http.DefaultTransport
	}
	t, ok := roundTripper.(*http.Transport)
	if !ok || t.DialTLSContext != nil || t.DialTLS != nil || t.Dial != nil { //nolint:staticcheck // one that still has them
		return s
	}
	if _, err := netip.ParseAddr(base.Hostname()); err != nil {
		s.host, s.transport = base.Hostname(), t
	}
	return s
}

// at returns the daemon at an address of the site's name. URL, Host and the name that TLS checks stay.
func (s *site) at(c *Client, address string) *daemon {
	own := *c.http
	t := s.transport.Clone()
	dial := t.DialContext
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	t.DialContext = func(ctx context.Context, network, to string) (net.Conn, error) {
		if host, port, err := net.SplitHostPort(to); err == nil && host == s.host { // else it is a proxy's
			to = net.JoinHostPort(address, port)
		}
		return dial(ctx, network, to)
	}
	own.Transport = t
	return &daemon{client: c, base: s.base, name: s.base + " (" + address + ")", address: address, http: &own}
}

// known returns the daemons. It has names looked up, where that was longer ago than lookupEvery.
func (c *Client) known(ctx context.Context) []*daemon {
	patience := lookupPatience
	c.mu.Lock()
	if !slices.ContainsFunc(c.sites, func(s *site) bool { return s.host != "" }) {
		defer c.mu.Unlock()
		return c.daemons
	}
	if c.lookedUp == nil || c.mono()-c.lookupAt >= lookupEvery && isDone(c.lookedUp) {
		if c.lookedUp == nil {
			patience = c.cfg.RequestTimeout
		}
		c.lookedUp, c.lookupAt = make(chan struct{}), c.mono()
		done := c.lookedUp
		if c.closed {
			close(done)
		} else {
			c.running.Go(func() { defer close(done); c.lookup() })
		}
	}
	done := c.lookedUp
	c.mu.Unlock()
	if !isDone(done) {
		wait := time.NewTimer(patience)
		defer wait.Stop()
		select {
		case <-done:
		case <-wait.C:
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.daemons
}

func isDone(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// lookup has a daemon for each address of each name. Where a name isn't found those from before stay.
func (c *Client) lookup() {
	ctx, cancel := context.WithTimeout(c.life, c.cfg.RequestTimeout)
	defer cancel()
	for _, s := range c.sites {
		if s.host == "" {
			continue
		}
		addresses, err := c.resolve(ctx, s.host)
		if err != nil {
			continue // a request says so, unless addresses from before answer
		}
		c.mu.Lock()
		before := s.daemons
		s.daemons = nil
		for _, address := range addresses {
			i := slices.IndexFunc(before, func(d *daemon) bool { return d.address == address })
			if i < 0 {
				s.daemons = append(s.daemons, s.at(c, address))
			} else {
				s.daemons = append(s.daemons, before[i])
			}
		}
		c.listLocked()
		c.mu.Unlock()
		for _, d := range before {
			if !slices.Contains(addresses, d.address) {
				d.leave()
			}
		}
	}
}

// listLocked makes the list of daemons that requests go to.
func (c *Client) listLocked() {
	var all []*daemon
	for _, s := range c.sites {
		all = append(all, s.daemons...)
	}
	c.daemons = all
}

// isAlone reports whether there is one daemon, as far as the client knows: behind its address may be others
// (a Kubernetes Service), so it isn't left alone for longer than firstPause.
func (c *Client) isAlone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.daemons) == 1
}
