package main

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/zkreg"
	"github.com/leafd/leafd/zkreg/zksession"
)

// session counts what one registry asks of ZooKeeper.
type session struct {
	zkreg.Session
	temporary string // immutable; parent of the live set

	all    atomic.Int64 // requests
	beside atomic.Int64 // those that no report that goes well makes, and no look at an unchanged live set
	rounds atomic.Int64 // looks at the live set
}

// dial opens a session that is counted in s.
func (s *session) dial(cfg zksession.Config) (zkreg.Session, error) {
	opened, err := zksession.Open(cfg)
	if err != nil {
		return nil, err
	}
	s.Session = opened
	return s, nil
}

// count counts a request; usual is one that each report makes, or each round.
func (s *session) count(usual bool) {
	s.all.Add(1)
	if !usual {
		s.beside.Add(1)
	}
}

// Get implements zkreg.Session. A report reads its own node in the live set.
func (s *session) Get(ctx context.Context, p string) ([]byte, *zk.Stat, error) {
	s.count(strings.HasPrefix(p, s.temporary+"/"))
	return s.Session.Get(ctx, p)
}

// Exists implements zkreg.Session. A round asks whether the live set has changed.
func (s *session) Exists(ctx context.Context, p string) (bool, *zk.Stat, error) {
	s.count(p == s.temporary)
	if p == s.temporary {
		defer s.rounds.Add(1)
	}
	return s.Session.Exists(ctx, p)
}

// Children implements zkreg.Session.
func (s *session) Children(ctx context.Context, p string) ([]string, *zk.Stat, error) {
	s.count(false)
	return s.Session.Children(ctx, p)
}

// Sync implements zkreg.Session. A look at our entry begins with it, and reads our node in the
// live set too, which Get counts as a report's.
func (s *session) Sync(ctx context.Context, p string) error {
	s.count(false)
	s.beside.Add(1)
	return s.Session.Sync(ctx, p)
}

// Multi implements zkreg.Session. A report is one that is done.
func (s *session) Multi(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
	responses, err := s.Session.Multi(ctx, connection, ops...)
	s.count(err == nil)
	return responses, err
}
