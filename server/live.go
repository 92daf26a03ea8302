package server

import (
	"crypto/sha256"
	"fmt"

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

// live is a validated Live. It is never changed once stored.
type live struct {
	maxBatch    int
	adminOn     bool
	adminDigest [sha256.Size]byte // of the token
	hosts       []string          // as hostName writes them
	rate        limits.Limit
	rates       *rateTables // nil: no limit
}

// SetLive makes l the settings from the next request on. An error names the invalid
// setting; nothing has changed then.
func (s *Server) SetLive(l Live) error {
	commit, err := s.PrepareLive(l)
	if err != nil {
		return err
	}
	commit()
	return nil
}

// PrepareLive is SetLive in two steps: it validates l, and commit makes it the settings.
func (s *Server) PrepareLive(l Live) (commit func(), err error) {
	ready, err := l.complete()
	if err != nil {
		return nil, err
	}
	if ready.rate.On() {
		ready.rates = s.overload.tables()
	}
	return func() { s.live.Store(ready) }, nil
}

func (l Live) complete() (*live, error) {
	if l.MaxBatch < 0 {
		return nil, fmt.Errorf("MaxBatch is %d: want at least 1, or 0 for %d", l.MaxBatch, DefaultMaxBatch)
	}
	if l.MaxBatch == 0 {
		l.MaxBatch = DefaultMaxBatch
	}
	ready := &live{
		maxBatch: l.MaxBatch, adminOn: len(l.AdminToken) > 0, adminDigest: sha256.Sum256(l.AdminToken),
	}
	for _, name := range l.Hosts {
		ready.hosts = append(ready.hosts, hostName(name))
	}
	switch {
	case l.RateLimit < 0 || l.RateLimit > limits.MaxRate:
		return nil, fmt.Errorf("RateLimit is %d: want 0 to %d", l.RateLimit, limits.MaxRate)
	case l.RateLimit > 0:
		ready.rate = limits.NewLimit(l.RateLimit, l.RateLimit)
	}
	return ready, nil
}
