package server

import (
	"cmp"
	"crypto/sha256"

	"github.com/leafd/leafd/server/limits"
)

// Live has the settings that may change while the server serves. Zero values get the
// default.
type Live struct {
	// AdminToken lets its bearer change tags; without one, nobody can change them.
	AdminToken []byte
	// Hosts are the names by which this daemon is asked, beside its addresses and
	// localhost; AnyHost for all (server.H1).
	Hosts []string
	// MaxBatch is the largest n of a request.
	MaxBatch int
	// RateLimit is how many IDs a second each key gets, up to limits.MaxRate, and how
	// many at once after a pause; more get 429 rate_limited. A batch that is larger needs
	// all of them, and its remainder is charged afterwards. 0 is no limit.
	RateLimit int
}

// live is a Live, prepared for use. It is never changed once stored.
type live struct {
	maxBatch    int
	adminOn     bool
	adminDigest [sha256.Size]byte // of the token
	hosts       []string          // as hostName writes them
	rate        limits.Limit
	rates       *rateTables // nil: no limit
}

// SetLive makes l the settings from the next request on. The caller has checked their
// ranges.
func (s *Server) SetLive(l Live) {
	next := &live{maxBatch: cmp.Or(l.MaxBatch, DefaultMaxBatch), adminOn: len(l.AdminToken) > 0, adminDigest: sha256.Sum256(l.AdminToken)}
	for _, name := range l.Hosts {
		next.hosts = append(next.hosts, hostName(name))
	}
	if l.RateLimit > 0 {
		next.rate = limits.NewLimit(l.RateLimit, l.RateLimit)
		next.rates = s.overload.tables()
	}
	s.live.Store(next)
}
