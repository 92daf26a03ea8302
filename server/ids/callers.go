package ids

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"hash/maphash"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/server/fair"
	"github.com/leafd/leafd/server/reply"
)

// Caller is the bearer of a token, and what it may do.
type Caller struct {
	Name   string            // in metrics and the audit log; several tokens may have one
	SHA256 [sha256.Size]byte // of the token
	IDs    []string          // it may fetch those of these keys; one that ends in * stands for all that begin so
	Admin  bool              // it may change tags, and take profiles
}

// adminName is the caller of Live.AdminToken. No Caller's name has a space.
const adminName = "admin token"

// caller is a Caller, prepared for use.
type caller struct {
	name     string
	origin   fair.Address
	admin    bool
	keys     map[string]struct{}
	prefixes []string
	requests *atomic.Int64 // for IDs, that its token was good for
}

// callers are those of a Live. They keep:
//
//  1. A token is known by its SHA-256 alone: it is looked up by that, so that the
//     time that takes tells nothing of another token, and stands in no log and no metric.
//  2. Where there are Callers, no ID is issued without the token of one that may have
//     those of this key. Each request is held against the settings in force: a reload
//     that takes a token away ends it on open connections, too.
type callers struct {
	byDigest map[[sha256.Size]byte]*caller
	counts   map[string]*atomic.Int64 // by name
	on       bool
	adminOn  bool // one may change tags
}

// newCallers prepares those of l; those of before keep their counts.
func newCallers(l Live, before callers) callers {
	all := callers{byDigest: make(map[[sha256.Size]byte]*caller), counts: make(map[string]*atomic.Int64), on: len(l.Callers) > 0}
	for _, given := range l.Callers {
		c := &caller{name: given.Name, origin: fair.AddressOf([]byte(given.Name)), admin: given.Admin, keys: make(map[string]struct{})}
		for _, key := range given.IDs {
			if prefix, all := strings.CutSuffix(key, "*"); all {
				c.prefixes = append(c.prefixes, prefix)
			} else {
				c.keys[key] = struct{}{}
			}
		}
		if c.requests = cmp.Or(all.counts[c.name], before.counts[c.name]); c.requests == nil {
			c.requests = new(atomic.Int64)
		}
		all.counts[c.name] = c.requests
		all.byDigest[given.SHA256] = c
		all.adminOn = all.adminOn || c.admin
	}
	if len(l.AdminToken) > 0 {
		all.adminOn = true
		all.byDigest[sha256.Sum256(l.AdminToken)] = &caller{name: adminName, origin: fair.AddressOf([]byte(adminName)), admin: true, requests: new(atomic.Int64)}
	}
	return all
}

// of returns the caller of a token; nil where there is none.
func (a *callers) of(token []byte) *caller { return a.byDigest[sha256.Sum256(token)] }

// may returns nil if c, nil for none, may have IDs of this key, and else reply.ErrNoToken or
// reply.ErrKeyRefused.
func (a *callers) may(c *caller, key []byte) error {
	if !a.on {
		return nil
	}
	if c == nil {
		return reply.ErrNoToken
	}
	if _, named := c.keys[string(key)]; !named && !c.hasPrefix(key) {
		return reply.ErrKeyRefused
	}
	c.requests.Add(1)
	return nil
}

func (c *caller) hasPrefix(key []byte) bool {
	for _, prefix := range c.prefixes {
		if len(key) >= len(prefix) && string(key[:len(prefix)]) == prefix {
			return true
		}
	}
	return false
}

var headerAuthorization = []byte(fasthttp.HeaderAuthorization) //nolint:gochecknoglobals // never written to

// bearer returns the caller of the token in an Authorization; nil where there is none.
func (a *callers) bearer(value []byte) *caller {
	const scheme = "Bearer "
	if len(value) <= len(scheme) || !bytes.EqualFold(value[:len(scheme)], []byte(scheme)) {
		return nil
	}
	return a.of(bytes.TrimLeft(value[len(scheme):], " "))
}

// AdminOf returns the name of the caller that has a request's token, where that may change tags; on reports
// whether there is such a caller at all.
func (s *Server) AdminOf(h *fasthttp.RequestHeader) (name string, on bool) {
	settings := s.live.Load()
	if c := settings.callers.bearer(h.PeekCanonical(headerAuthorization)); c != nil && c.admin {
		name = c.name
	}
	return name, settings.callers.adminOn
}

// lastBearer is the caller that a connection was found to be, and by what: the next request has the
// same Authorization as a rule, which so costs a twentieth of a SHA-256.
type lastBearer struct {
	value  []byte
	hash   uint64
	caller *caller
	under  *callers // that found it
}

var bearerSeed = maphash.MakeSeed() //nolint:gochecknoglobals // never written to

// of returns the caller of the token in an Authorization. Bytes are compared only where a hash
// that no client can predict is the same, so that the time that takes tells nothing.
func (l *lastBearer) of(a *callers, value []byte) *caller {
	hash := maphash.Bytes(bearerSeed, value)
	if l.under == a && l.hash == hash && bytes.Equal(l.value, value) {
		return l.caller
	}
	c := a.bearer(value)
	if c != nil {
		*l = lastBearer{append(l.value[:0], value...), hash, c, a}
	}
	return c
}

// AddressOf returns the address of a request that is none for IDs.
func (s *Server) AddressOf(ctx *fasthttp.RequestCtx) fair.Address {
	c := clientOf(ctx)
	if value := ctx.Request.Header.PeekCanonical(headerAuthorization); len(value) > 0 {
		if by := c.bearer.of(&s.live.Load().callers, value); by != nil {
			return by.origin
		}
	}
	return c.Origin()
}

// on returns the address of a request on c by a caller, nil for none.
func (c *caller) on(nc *client) fair.Address {
	if c != nil {
		return c.origin
	}
	return nc.Origin()
}

// callersCollector exports what callers with a token have asked for: a name for each of the
// settings in force, and no more.
type callersCollector struct {
	s    *Server
	desc *prometheus.Desc
}

func newCallersCollector(s *Server) callersCollector {
	return callersCollector{s, prometheus.NewDesc("leafd_caller_requests_total",
		"Requests for IDs with a good token, by the caller's name in --tokens-file.", []string{"caller"}, nil)}
}

// Describe implements prometheus.Collector.
func (c callersCollector) Describe(descs chan<- *prometheus.Desc) { descs <- c.desc }

// Collect implements prometheus.Collector.
func (c callersCollector) Collect(metrics chan<- prometheus.Metric) {
	for name, count := range c.s.live.Load().callers.counts {
		metrics <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(count.Load()), name)
	}
}
