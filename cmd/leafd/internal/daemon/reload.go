package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// Reloader reads the settings again at each SIGHUP, the file and the files that it names, and passes
// those that have changed on to the parts of the daemon. Flags and environment are those of the start.
// It keeps:
//
//  1. All or nothing: no part changes before every setting was read and found
//     right. Parts take settings, and have nothing left to refuse.
//  2. Only what Config.WithLive copies ever reaches a part. What identifies this daemon
//     (node, data directory, ZooKeeper, worker ID, layout, where it listens) stays as
//     at the start until the process ends.
//  3. No request waits for a reload: the settings that it needs are replaced in one
//     atomic step.
//  4. A part that joins after a reload gets the settings of that reload.
//  5. Reloads happen one after the other. A signal that comes during one makes
//     another after it.
//  6. From a reload that is refused until one succeeds that is a condition, with the
//     mistakes: what an operator believes to be revoked goes on meanwhile.
type Reloader struct {
	Load   func(ctx context.Context) (settings.Config, *settings.Values, error)
	Log    zerolog.Logger
	Values *settings.Values // in force; Run's goroutine alone uses them
	Clock  clock.Clock      // tells when a reload was refused

	cfg atomic.Pointer[settings.Config] // the start's, with all reloads since; atomic, because a stop must not wait for a reload

	refused atomic.Pointer[error] // why the last reload was; nil: it was not

	mu    sync.Mutex
	parts map[string]func(cfg settings.Config) // mu protects
}

// NewReloader returns a Reloader of a daemon that starts with cfg.
func NewReloader(cfg settings.Config) *Reloader {
	r := &Reloader{parts: map[string]func(cfg settings.Config){}}
	r.cfg.Store(&cfg)
	return r
}

// current returns the settings as they are now.
func (r *Reloader) current() settings.Config { return *r.cfg.Load() }

// Join adds a part, in the place of one of the same name: apply gets the settings as they are now,
// and those of every reload to come. It may not block.
func (r *Reloader) Join(name string, apply func(cfg settings.Config)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts[name] = apply
	apply(r.current())
}

// Run reloads at each signal until ctx is done.
func (r *Reloader) Run(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			r.once(ctx)
		}
	}
}

// once is one reload. One log line tells its outcome, and another the settings that
// need a restart.
func (r *Reloader) once(ctx context.Context) {
	before := r.current()
	next, values, err := r.Load(ctx)
	if ctx.Err() != nil { // the stop may have ended the reading
		return
	}
	if err != nil {
		why := refusal(r.Clock.Read().Wall(), err)
		r.refused.Store(&why)
		r.Log.Error().Err(err).Msg("reload: refused, and no setting has changed; fix this and send SIGHUP again")
		return
	}
	r.mu.Lock()
	merged := before.WithLive(next)
	for _, apply := range r.parts {
		apply(merged)
	}
	r.cfg.Store(&merged)
	r.refused.Store(nil)
	r.mu.Unlock()
	for _, warning := range next.Warnings {
		r.Log.Warn().Msg(warning)
	}
	taken, waiting := r.changes(before, next, values)
	what := "settings taken"
	if len(taken) == 0 {
		what = "no setting that can change while leafd runs has changed"
	}
	r.Log.Info().Strs("taken", taken).Msg("reload: " + what)
	if len(waiting) > 0 {
		r.Log.Warn().Strs("settings", waiting).Msg("reload: these settings have changed and need a restart: the old values stay in force")
	}
}

// namesAFile matches a mistake in a setting that names a file.
var namesAFile = regexp.MustCompile(`([-_](?:file|cert|key|ca|FILE|CERT|KEY|CA)) is .*`)

// refusal returns why a reload was refused, and when, on one line that every client may read: where a file is to be
// named, the secret itself may have been put by mistake, so that the log alone has it.
func refusal(at clock.Millis, err error) error {
	mistakes := settings.Errors{err.Error()}
	_ = errors.As(err, &mistakes)
	var shown []string
	for _, mistake := range mistakes {
		shown = append(shown, namesAFile.ReplaceAllString(mistake, "$1 can't be used, the log says why"))
	}
	return fmt.Errorf("at %s: %s", at, strings.Join(shown, "; "))
}

// changes returns the settings that were taken, with old and new values, which are then the ones in
// force, and the names of those that need a restart.
func (r *Reloader) changes(before, next settings.Config, after *settings.Values) (taken, waiting []string) {
	content := map[string]bool{ // of files that have changed
		"admin-token-file": before.HTTP.AdminToken != next.HTTP.AdminToken,
		"tokens-file":      !reflect.DeepEqual(before.HTTP.Callers, next.HTTP.Callers),
		"zk-auth-file":     !reflect.DeepEqual(before.ZooKeeper.Auth, next.ZooKeeper.Auth),
	}
	for _, v := range after.All {
		name, old := v.Setting.Name, r.Values.Find(v.Setting.Name)
		was, is := old.Hidden().Text(), v.Hidden().Text()
		if was == is {
			was, is = "(content)", "(new content)"
		}
		switch {
		case reflect.DeepEqual(old.Parsed, v.Parsed) && !content[name]:
		case v.Setting.Live && (name != "mysql" || r.current().Segment.MySQL == next.Segment.MySQL):
			taken = append(taken, fmt.Sprintf("%s: %s -> %s", name, was, is))
			*old = *v
		default:
			waiting = append(waiting, name)
		}
	}
	return taken, waiting
}
