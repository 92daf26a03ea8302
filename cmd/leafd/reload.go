package main

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/leafd/leafd/server"
)

// taker makes a part of the daemon ready to go on with the settings of cfg. take
// does so, and can't fail; err says why the part can't. Neither may wait.
type taker func(cfg Config) (take func(), err error)

// reloader hands settings that have changed to the parts of the daemon. It keeps:
//
//	L1  All or nothing: no part changes before every setting was read and found
//	    right, and every part has agreed.
//	L2  Only what Config.withLive copies ever reaches a part. Who this daemon is
//	    (node, data folder, ZooKeeper, worker ID, layout, where it listens) stays as
//	    at the start until the process ends.
//	L3  Whoever issues an ID waits for no reload: what a request needs of the settings
//	    is replaced in one atomic step.
//	L4  A part that joins after a reload goes on with what was taken then.
//	L5  Reloads happen one after the other. A signal that comes during one makes
//	    another after it.
type reloader struct {
	cfg atomic.Pointer[Config] // the start's, with what was taken since; a stop reads it, and waits for nobody

	mu     sync.Mutex
	takers []taker // mu protects
}

func newReloader(cfg Config) *reloader {
	r := &reloader{}
	r.cfg.Store(&cfg)
	return r
}

// current returns the settings as they are now.
func (r *reloader) current() Config { return *r.cfg.Load() }

// join adds a part, which takes the settings as they are now, and those of every
// reload to come (L4).
func (r *reloader) join(part taker) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	take, err := part(r.current())
	if err != nil {
		return err
	}
	take()
	r.takers = append(r.takers, part)
	return nil
}

// apply makes all parts take what may change of next (L1, L2).
func (r *reloader) apply(next Config) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	merged := r.current().withLive(next)
	takes := make([]func(), 0, len(r.takers))
	var refused []error
	for _, part := range r.takers {
		take, err := part(merged)
		refused = append(refused, err)
		takes = append(takes, take)
	}
	if err := errors.Join(refused...); err != nil {
		return err
	}
	for _, take := range takes {
		take()
	}
	r.cfg.Store(&merged)
	return nil
}

// withLive returns c with the fields of next whose settings are marked live (L2). A
// setting that is marked has its field here, and no other has.
func (c Config) withLive(next Config) Config {
	c.AdminToken, c.MaxBatch = next.AdminToken, next.MaxBatch
	c.MaxInflight, c.QueueWait = next.MaxInflight, next.QueueWait
	c.RateLimit, c.RateBurst = next.RateLimit, next.RateBurst
	c.SegmentWait, c.SegmentRefresh = next.SegmentWait, next.SegmentRefresh
	c.ClockThreshold = next.ClockThreshold
	c.DrainDelay, c.ShutdownTimeout = next.DrainDelay, next.ShutdownTimeout
	c.AlarmWebhook, c.AlarmExec = next.AlarmWebhook, next.AlarmExec
	c.LogLevel = next.LogLevel
	return c
}

// live is what the HTTP server takes while it serves.
func (c Config) live() server.Live {
	return c.overload(server.Live{AdminToken: []byte(c.AdminToken), MaxBatch: c.MaxBatch})
}

// takeLevel is the log's taker.
func (l *logLevel) takeLevel(cfg Config) (take func(), err error) {
	parsed, err := zerolog.ParseLevel(cfg.LogLevel)
	return func() { l.set(parsed) }, err
}

// takeLive is the HTTP server's taker.
func (d *daemon) takeLive(cfg Config) (take func(), err error) {
	return d.server.PrepareLive(cfg.live())
}

// takeAlarms is that of the alarms.
func (d *daemon) takeAlarms(cfg Config) (take func(), err error) {
	return d.monitor.alarms.Targets(cfg.AlarmWebhook, cfg.AlarmExec)
}
