// Package cachetest has a worker.Cache in memory that fails and blocks when it
// is told to, and the suite of tests that every worker.Cache must pass.
package cachetest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/worker"
)

var _ worker.Cache = (*Mem)(nil)

// Mem is a worker.Cache in memory, to stand in for the file where a test must
// make it fail, hang or be lost. The zero value is a cache that never held a
// record. It is safe for concurrent use.
type Mem struct {
	mu      sync.Mutex // protects all below
	record  *worker.Record
	saves   []worker.Record
	loadErr error
	saveErr error
	hold    *Hold
}

// Hold is a pause that the Saves of a Mem run into.
type Hold struct {
	entered chan struct{}
	release chan struct{}
	enter   func()
	once    sync.Once
}

// Entered is closed when a Save has run into the pause: it has neither recorded
// anything nor returned.
func (h *Hold) Entered() <-chan struct{} { return h.entered }

// Release lets the Saves that wait go on, and later ones through. It may be
// called more than once.
func (h *Hold) Release() { h.once.Do(func() { close(h.release) }) }

// Load returns what was saved or set last, the error told to FailLoad, or
// worker.ErrNoRecord.
func (m *Mem) Load() (worker.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loadErr != nil {
		return worker.Record{}, m.loadErr
	}
	if m.record == nil {
		return worker.Record{}, fmt.Errorf("cachetest: memory: %w", worker.ErrNoRecord)
	}
	return clone(*m.record), nil
}

// SetAside implements worker.Cache.
func (m *Mem) SetAside() (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.saveErr != nil {
		return "", m.saveErr
	}
	m.record, m.loadErr = nil, nil
	return "aside", nil
}

// Save records r unless it was told to fail. It refuses what the file refuses,
// with cache.ErrBadRecord, and keeps as many of the peers.
func (m *Mem) Save(r worker.Record) error {
	r, err := cache.Fit(r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	hold := m.hold
	m.mu.Unlock()
	if hold != nil {
		hold.enter()
		<-hold.release
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.saveErr != nil {
		return m.saveErr
	}
	r = clone(r)
	r.MaybeStale, r.Restored = false, false
	m.record = &r
	m.saves = append(m.saves, clone(r))
	return nil
}

// Set makes r what Load returns, as if an earlier process had saved it.
func (m *Mem) Set(r worker.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r = clone(r)
	m.record = &r
}

// FailLoad makes every Load return err, until it is called with nil.
func (m *Mem) FailLoad(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loadErr = err
}

// FailSave makes every Save return err and record nothing, until it is called
// with nil.
func (m *Mem) FailSave(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saveErr = err
}

// Block makes every Save from now on wait until the pause is released. A Save
// that waits was let in already: what it does then follows what Mem is told by
// that time.
func (m *Mem) Block() *Hold {
	h := &Hold{entered: make(chan struct{}), release: make(chan struct{})}
	h.enter = sync.OnceFunc(func() { close(h.entered) })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold = h
	return h
}

// Saves returns the records of all Saves that returned nil, oldest first.
func (m *Mem) Saves() []worker.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	saves := make([]worker.Record, len(m.saves))
	for i, r := range m.saves {
		saves[i] = clone(r)
	}
	return saves
}

// clone returns r without anything shared; as in the file, no peers and an
// empty list of them are one.
func clone(r worker.Record) worker.Record {
	r.Peers = slices.Clone(r.Peers)
	if len(r.Peers) == 0 {
		r.Peers = nil
	}
	return r
}
