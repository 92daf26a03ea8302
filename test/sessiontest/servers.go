package sessiontest

import (
	"sync"
	"testing"

	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/zkreg"
	"github.com/leafd/leafd/zkreg/zksession"
)

// ZooKeeper is one of which each session has a line of its own.
type ZooKeeper interface {
	Open(cfg zksession.Config) (zkreg.Session, error)
	// Cut cuts the line of s, and Join restores it.
	Cut(s zkreg.Session)
	Join(s zkreg.Session)
}

// servers are real.
type servers struct {
	t testing.TB

	mu    sync.Mutex
	lines map[zkreg.Session]*zookeepertest.Proxy // mu protects
}

// Servers returns the ZooKeeper of real servers. A session's line leads to one of those that
// it is opened with, the next one's to the next.
func Servers(t testing.TB) ZooKeeper {
	return &servers{t: t, lines: map[zkreg.Session]*zookeepertest.Proxy{}}
}

func (s *servers) Open(cfg zksession.Config) (zkreg.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	proxy := zookeepertest.NewProxy(s.t, cfg.Servers[len(s.lines)%len(cfg.Servers)])
	cfg.Servers = []string{proxy.Addr()}
	session, err := zksession.Open(cfg)
	s.lines[session] = proxy
	return session, err
}

func (s *servers) Cut(session zkreg.Session)  { s.line(session).Down(s.t) }
func (s *servers) Join(session zkreg.Session) { s.line(session).Up(s.t) }

func (s *servers) line(session zkreg.Session) *zookeepertest.Proxy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines[session]
}
