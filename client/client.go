package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Defaults of Config.
const (
	DefaultAhead          = 10 * time.Second
	DefaultMaxAhead       = 20_000
	DefaultMaxAge         = 10 * time.Second
	DefaultRequestTimeout = time.Second
)

// ErrClosed is returned after Close.
var ErrClosed = errors.New("client: closed")

// Config is what a Client is made of. Zero values get the default.
type Config struct {
	// Addresses are the daemons' base URLs, such as http://10.0.0.5:8080. Each address of a
	// name is a daemon, and names are looked up again every few seconds. For snowflake
	// IDs they belong to one ZooKeeper root (or differ in --worker-id), for segment IDs
	// to one database. Required.
	Addresses []string
	// HTTPClient makes the requests; its Transport decides on TLS and unix sockets. A Transport that is no
	// *http.Transport, or has a DialTLSContext, finds the addresses of names itself.
	// Redirects are not followed, even if it would follow them. By default one that keeps a few
	// connections to each daemon, and uses no proxy.
	HTTPClient *http.Client
	// Token, where it isn't empty, is what daemons with a tokens-file know this caller by.
	Token string
	// Ahead is how long the IDs that were fetched ahead last at the rate of use: so long a source goes on
	// when no daemon answers. Snowflake IDs have the time at which they were fetched: they
	// are fetched for a second ahead, or a quarter of MaxAge, where that is less.
	Ahead time.Duration
	// MaxAhead is how many IDs of one source may be fetched and not handed out yet,
	// from 2: what a crash loses at most. Half of it bounds what Ahead keeps there, and a batch.
	MaxAhead int
	// MaxAge is how old a snowflake ID may be when it is handed out, from RequestTimeout;
	// negative: any age. Segment IDs don't age.
	MaxAge time.Duration
	// RequestTimeout is how long one daemon may take for one request before another is
	// asked. Above the half second that daemons wait for a range, or tags that wait for a range fail.
	RequestTimeout time.Duration
	// Lease, where it isn't 0, has Next make snowflake IDs by itself, of a slice that a daemon lends: so long, an hour at most, or as
	// long as it lends, when no daemon answers. These are 16 a millisecond, 16,000 a second, for all sources
	// together, for which calls wait. Without a slice, and for NextN, IDs are fetched ahead.
	Lease time.Duration
	// Failed, where it isn't nil, is called with the error of each request that failed:
	// for logs. Background goroutines call it, so that it must not block.
	Failed func(error)
	// Traceparent, where it isn't nil, returns the traceparent (W3C Trace Context) of a
	// caller's context: leafd logs it with an error. It is asked only for calls that have to
	// wait for a request, which carries that of the first of them that has one; a batch that
	// is fetched ahead is for no caller, and carries none.
	Traceparent func(context.Context) string
}

// Client takes IDs from daemons. It is safe for concurrent use.
type Client struct {
	cfg     Config // immutable, complete
	http    *http.Client
	ownHTTP bool
	sites   []*site
	borrows *borrower                                                              // nil: Config.Lease is 0
	mono    func() time.Duration                                                   // monotonic time since New; tests put their own here
	resolve func(ctx context.Context, host string) (addresses []string, err error) // and here

	life    context.Context //nolint:containedctx // until Close
	end     context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	closed   bool               // mu protects
	sources  map[string]*Source // mu protects; by path
	daemons  []*daemon          // mu protects; of all sites; never changed in place
	lookupAt time.Duration      // mu protects; when the last lookup of names began
	lookedUp chan struct{}      // mu protects; closed when it has ended; nil: none yet
}

// New returns a Client. It connects to nothing before the first ID is asked for. It returns an
// error that names the field of cfg at fault.
func New(cfg Config) (*Client, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	started := time.Now()
	c := &Client{cfg: cfg, mono: func() time.Duration { return time.Since(started) }, sources: make(map[string]*Source)}
	c.resolve = func(ctx context.Context, host string) ([]string, error) {
		return net.DefaultResolver.LookupHost(ctx, host)
	}
	c.life, c.end = context.WithCancel(context.Background())
	if cfg.HTTPClient == nil {
		c.ownHTTP = true
		c.http = &http.Client{Transport: &http.Transport{
			MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second, DisableCompression: true, ForceAttemptHTTP2: false,
		}}
	} else {
		own := *cfg.HTTPClient
		c.http = &own
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, address := range cfg.Addresses {
		base, err := parseAddress(address)
		if err != nil {
			return nil, err
		}
		c.sites = append(c.sites, c.newSite(base))
	}
	c.listLocked()
	if cfg.Lease > 0 {
		c.borrows = newBorrower(c)
	}
	return c, nil
}

func (c *Config) complete() error {
	if len(c.Addresses) == 0 {
		return errors.New("client: Config needs Addresses, such as http://10.0.0.5:8080")
	}
	if c.MaxAhead == 0 {
		c.MaxAhead = DefaultMaxAhead
	}
	if c.MaxAhead < 2 {
		return fmt.Errorf("client: MaxAhead is %d: want 2 or more, or 0 for %d", c.MaxAhead, DefaultMaxAhead)
	}
	if c.Ahead == 0 {
		c.Ahead = DefaultAhead
	}
	if c.Ahead < 0 {
		return fmt.Errorf("client: Ahead is %s: want more than 0, or 0 for %s", c.Ahead, DefaultAhead)
	}
	if c.MaxAge == 0 {
		c.MaxAge = DefaultMaxAge
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = DefaultRequestTimeout
	}
	if c.RequestTimeout < 0 {
		return fmt.Errorf("client: RequestTimeout is %s: want more than 0, or 0 for %s", c.RequestTimeout, DefaultRequestTimeout)
	}
	if c.Lease < 0 || c.Lease > longestLend {
		return fmt.Errorf("client: Lease is %s: want up to %s, or 0 for none", c.Lease, longestLend)
	}
	if c.MaxAge > 0 && c.MaxAge < c.RequestTimeout {
		// What a slow request brings would be too old when it comes, forever.
		return fmt.Errorf("client: MaxAge is %s: want RequestTimeout (%s) or more, or less than 0 for any age", c.MaxAge, c.RequestTimeout)
	}
	return nil
}

// parseAddress returns a base URL without a slash at its end.
func parseAddress(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("client: address %q: want a URL such as http://10.0.0.5:8080", address)
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// Snowflake returns the source of snowflake IDs for key, which names the caller; 1 to 128
// bytes. The same key gives the same source.
func (c *Client) Snowflake(key string) *Source {
	ahead := min(c.cfg.Ahead, time.Second)
	if c.cfg.MaxAge > 0 {
		ahead = min(ahead, c.cfg.MaxAge/4) // an ID is used within twice that, at an even rate
	}
	return c.source(snowflakePath, key, ahead, c.cfg.MaxAge)
}

// Segment returns the source of the IDs of tag. The same tag gives the same source.
func (c *Client) Segment(tag string) *Source {
	return c.source("/api/segment/get/", tag, c.cfg.Ahead, -1)
}

func (c *Client) source(prefix, key string, ahead, maxAge time.Duration) *Source {
	path := prefix + url.PathEscape(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sources[path]
	if s == nil {
		s = newSource(c, path, ahead, maxAge)
		if prefix == snowflakePath {
			s.borrows = c.borrows
		}
		c.sources[path] = s
		if c.closed {
			s.closed = true
		}
	}
	return s
}

// Close ends what runs in the background, drops the IDs that were fetched ahead, and gives a slice back, which takes
// RequestTimeout at most.
// Callers that wait get ErrClosed, and so does every later call of Next.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	sources := make([]*Source, 0, len(c.sources))
	for _, s := range c.sources {
		sources = append(sources, s)
	}
	c.mu.Unlock()
	c.end()
	for _, s := range sources {
		s.close()
	}
	c.running.Wait()
	if c.borrows != nil {
		c.borrows.follow(context.Background(), new(slice))
	}
	for _, d := range c.daemons {
		d.leave()
	}
	if c.ownHTTP {
		c.http.CloseIdleConnections()
	}
}

// goRun runs fn in the background until Close. It returns false, and runs nothing, when
// the client is closed.
func (c *Client) goRun(fn func(ctx context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.running.Go(func() { fn(c.life) })
	return true
}

func (c *Client) failed(err error) {
	if c.cfg.Failed != nil {
		c.cfg.Failed(err)
	}
}
