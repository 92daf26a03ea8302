package server

import (
	"crypto/sha256"
	"fmt"
	"time"

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
	// MaxInflight is how many requests of each mode may wait at once: for a range of
	// a tag, or as batches, which count once more for each thousand IDs beyond the
	// first thousand. More get 503 overloaded. 0 is no limit.
	MaxInflight int
	// QueueWait is how far into the future the IDs of queued snowflake batches may
	// reach for another to be accepted. More get 503 overloaded. 0 is no limit.
	QueueWait time.Duration
	// RateLimit is how many IDs a second each key gets, up to limits.MaxRate; more
	// get 429 rate_limited. 0 is no limit.
	RateLimit int
	// RateBurst is how many IDs a key gets at once, up to limits.MaxBurst; 0 for as
	// many as RateLimit. A larger batch needs the whole burst, and its remainder is
	// charged afterwards.
	RateBurst int
}

// live is a validated Live. It is never changed once stored.
type live struct {
	maxBatch    int
	adminOn     bool
	adminDigest [sha256.Size]byte // of the token
	hosts       []string          // as hostName writes them
	maxInflight int64             // 0: no limit
	queueWait   time.Duration     // 0: no limit
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
		maxInflight: int64(l.MaxInflight), queueWait: l.QueueWait,
	}
	for _, name := range l.Hosts {
		ready.hosts = append(ready.hosts, hostName(name))
	}
	switch {
	case l.MaxInflight < 0:
		return nil, fmt.Errorf("MaxInflight is %d: want 0 or more", l.MaxInflight)
	case l.QueueWait < 0 || l.QueueWait > time.Hour || l.QueueWait%time.Millisecond != 0:
		return nil, fmt.Errorf("QueueWait is %s: want whole milliseconds from 0 to an hour", l.QueueWait)
	case l.RateLimit < 0 || l.RateLimit > limits.MaxRate:
		return nil, fmt.Errorf("RateLimit is %d: want 0 to %d", l.RateLimit, limits.MaxRate)
	case l.RateBurst < 0 || l.RateBurst > limits.MaxBurst:
		return nil, fmt.Errorf("RateBurst is %d: want 0 to %d", l.RateBurst, limits.MaxBurst)
	case l.RateLimit > 0 && l.RateBurst > 0:
		ready.rate = limits.NewLimit(l.RateLimit, l.RateBurst)
	case l.RateLimit > 0:
		ready.rate = limits.NewLimit(l.RateLimit, l.RateLimit)
	}
	return ready, nil
}
