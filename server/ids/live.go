package ids

import (
	"cmp"

	"github.com/leafd/leafd/server/limits"
)

// Live has the settings that may change while the server serves. Zero values get the
// default.
type Live struct {
	// AdminToken lets its bearer change tags; without one, no client can change them.
	AdminToken []byte
	// Callers, where there are any, are the only ones that get IDs. Their digests differ from each
	// other's and from the AdminToken's.
	Callers []Caller
	// Hosts are the names by which this daemon is asked, beside its addresses and
	// localhost; AnyHost for all.
	Hosts []string
	// MaxBatch is the largest n of a request, and MaxRange that of one for ranges of a tag.
	MaxBatch, MaxRange int
	// RateLimit is how many IDs a client gets a second, over all keys but those of RateLimits, up to
	// limits.MaxRate, and how many at once after a pause; more get 429 rate_limited. 0 is no limit.
	RateLimit int
	// RateLimits are those of keys that have one of their own.
	RateLimits map[string]int
}

// live is a Live, prepared for use. It is never changed once stored.
type live struct {
	maxBatch int
	maxRange int
	callers  callers
	hosts    []string      // as hostName writes them
	rates    *limits.Rates // nil: no limit
	rate     limits.Limit
	keyRates map[string]limits.Limit
}

// limitOf returns the limit of a key, and whether it is the key's own.
func (l *live) limitOf(key []byte) (limit limits.Limit, own bool) {
	if l.rates == nil {
		return limits.Limit{}, false
	}
	if limit, own = l.keyRates[string(key)]; own {
		return limit, true
	}
	return l.rate, false
}

// most returns the largest n of a request.
func (l *live) most(m mode, ranges bool) int {
	if ranges && m == segmentMode {
		return l.maxRange
	}
	return l.maxBatch
}

// limitOfRate returns the limit of so many IDs a second; 0: none.
func limitOfRate(rate int) limits.Limit {
	if rate == 0 {
		return limits.Limit{}
	}
	return limits.NewLimit(rate, rate)
}

// SetLive makes l the settings from the next request on. The caller has checked their
// ranges.
func (s *Server) SetLive(l Live) {
	next := &live{maxBatch: cmp.Or(l.MaxBatch, DefaultMaxBatch), maxRange: cmp.Or(l.MaxRange, DefaultMaxRange)}
	if before := s.live.Load(); before != nil {
		next.callers = newCallers(l, before.callers)
	} else {
		next.callers = newCallers(l, callers{})
	}
	for _, name := range l.Hosts {
		next.hosts = append(next.hosts, hostName(name))
	}
	if l.RateLimit > 0 || len(l.RateLimits) > 0 {
		next.rates, next.rate, next.keyRates = s.overload.table(), limitOfRate(l.RateLimit), make(map[string]limits.Limit)
		for key, rate := range l.RateLimits {
			next.keyRates[key] = limitOfRate(rate)
		}
	}
	s.live.Store(next)
}
