package server

import (
	"crypto/sha256"
	"fmt"
)

// Live are the settings that may change while the server serves. Zero values get
// the default.
type Live struct {
	// AdminToken lets its bearer change tags; without one nobody may.
	AdminToken []byte
	// MaxBatch is the largest n of a request.
	MaxBatch int
}

// live is Live, checked and made ready to use. It is never changed once stored.
type live struct {
	maxBatch    int
	adminOn     bool
	adminDigest [sha256.Size]byte // of the token
}

// SetLive makes l the settings from the next request on. An error names the one at
// fault; none has changed then.
func (s *Server) SetLive(l Live) error {
	ready, err := l.complete()
	if err != nil {
		return err
	}
	s.live.Store(ready)
	return nil
}

func (l Live) complete() (*live, error) {
	if l.MaxBatch < 0 {
		return nil, fmt.Errorf("server: MaxBatch is %d: want at least 1, or 0 for %d", l.MaxBatch, DefaultMaxBatch)
	}
	if l.MaxBatch == 0 {
		l.MaxBatch = DefaultMaxBatch
	}
	return &live{maxBatch: l.MaxBatch, adminOn: len(l.AdminToken) > 0, adminDigest: sha256.Sum256(l.AdminToken)}, nil
}
