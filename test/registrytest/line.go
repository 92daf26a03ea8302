package registrytest

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// line is a daemon's session. It counts its requests, and loses the answers that are to be lost.
type line struct {
	zkreg.Session

	mu       sync.Mutex
	requests int          // mu protects; so far
	lose     map[int]bool // mu protects; of which one the answer gets lost, and whether it is done
}

func (l *line) loseAnswer(n int, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose = map[int]bool{}
	if n > 0 {
		l.lose[l.requests+n] = done
	}
}

func (l *line) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests
}

// do has a request done, unless it is to be lost.
func (l *line) do(request func() error) error {
	l.mu.Lock()
	l.requests++
	done, lost := l.lose[l.requests]
	l.mu.Unlock()
	var err error
	if !lost || done {
		err = request()
	}
	if lost {
		return fmt.Errorf("%w: the answer was lost", worker.ErrUnreachable)
	}
	return err
}

// Get implements zkreg.Session.
func (l *line) Get(ctx context.Context, p string) (data []byte, stat *zk.Stat, err error) {
	err = l.do(func() (err error) { data, stat, err = l.Session.Get(ctx, p); return err })
	return data, stat, err
}

// Exists implements zkreg.Session.
func (l *line) Exists(ctx context.Context, p string) (found bool, stat *zk.Stat, err error) {
	err = l.do(func() (err error) { found, stat, err = l.Session.Exists(ctx, p); return err })
	return found, stat, err
}

// Children implements zkreg.Session.
func (l *line) Children(ctx context.Context, p string) (names []string, stat *zk.Stat, err error) {
	err = l.do(func() (err error) { names, stat, err = l.Session.Children(ctx, p); return err })
	return names, stat, err
}

// Multi implements zkreg.Session.
func (l *line) Multi(ctx context.Context, connection uint64, ops ...any) (answer []zk.MultiResponse, err error) {
	err = l.do(func() (err error) { answer, err = l.Session.Multi(ctx, connection, ops...); return err })
	return answer, err
}

// Sync implements zkreg.Session.
func (l *line) Sync(ctx context.Context, p string) error {
	return l.do(func() error { return l.Session.Sync(ctx, p) })
}
