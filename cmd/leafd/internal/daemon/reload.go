package daemon

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// prepare has a part of the daemon check the settings of cfg. commit applies them, and
// can't fail; err says why the part refuses them. Neither may block.
type prepare func(cfg settings.Config) (commit func(), err error)

// Reloader passes settings that have changed on to the parts of the daemon. It keeps:
//
//  1. All or nothing: no part changes before every setting was read and found
//     right, and every part has agreed.
//  2. Only what Config.WithLive copies ever reaches a part. What identifies this daemon
//     (node, data directory, ZooKeeper, worker ID, layout, where it listens) stays as
//     at the start until the process ends.
//  3. No request waits for a reload: the settings that it needs are replaced in one
//     atomic step.
//  4. A part that joins after a reload gets the settings of that reload.
//  5. Reloads happen one after the other. A signal that comes during one makes
//     another after it.
type Reloader struct {
	cfg atomic.Pointer[settings.Config] // the start's, with all reloads since; atomic, because a stop must not wait for a reload

	mu    sync.Mutex
	parts map[string]prepare // mu protects
}

// NewReloader returns a Reloader of a daemon that starts with cfg.
func NewReloader(cfg settings.Config) *Reloader {
	r := &Reloader{parts: map[string]prepare{}}
	r.cfg.Store(&cfg)
	return r
}

// current returns the settings as they are now.
func (r *Reloader) current() settings.Config { return *r.cfg.Load() }

// Join adds a part, which gets the settings as they are now, and those of every
// reload to come, in the place of one of the same name.
func (r *Reloader) Join(name string, p prepare) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	commit, err := p(r.current())
	if err != nil {
		return err
	}
	commit()
	r.parts[name] = p
	return nil
}

// apply commits to all parts what may change of next.
func (r *Reloader) apply(next settings.Config) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	merged := r.current().WithLive(next)
	var commits []func()
	var refused error
	for _, prepare := range r.parts {
		commit, err := prepare(merged)
		refused = errors.Join(refused, err)
		commits = append(commits, commit)
	}
	if refused != nil {
		return refused
	}
	for _, commit := range commits {
		commit()
	}
	r.cfg.Store(&merged)
	return nil
}

// Prepare makes the log a part that reloads.
func (l *LogLevel) Prepare(cfg settings.Config) (commit func(), err error) {
	parsed, err := zerolog.ParseLevel(cfg.Log.Level)
	return func() { l.set(parsed) }, err
}
