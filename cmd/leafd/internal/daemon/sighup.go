package daemon

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"

	"github.com/rs/zerolog"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// ReloadOnSIGHUP reads the settings again at each SIGHUP: the file and the files that
// it names. Flags and environment are those of the start.
type ReloadOnSIGHUP struct {
	Load   func(ctx context.Context) (settings.Config, *settings.Values, error)
	Log    zerolog.Logger
	Reload *Reloader
	Told   func() (done func()) // called when a reload begins; what it returns, when it has ended
	Values *settings.Values     // in force; Run's goroutine alone uses them
}

// Run reloads at each signal until ctx is done.
func (h *ReloadOnSIGHUP) Run(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			done := h.Told()
			h.once(ctx)
			done()
		}
	}
}

// once is one reload. One log line tells its outcome, and another the settings that
// need a restart.
func (h *ReloadOnSIGHUP) once(ctx context.Context) {
	before := h.Reload.current()
	next, values, err := h.Load(ctx)
	if err == nil {
		err = h.Reload.apply(next)
	}
	if ctx.Err() != nil { // the stop may have ended the reading
		return
	}
	if err != nil {
		h.Log.Error().Err(err).Msg("reload: refused, and no setting has changed; fix this and send SIGHUP again")
		return
	}
	for _, warning := range next.Warnings {
		if !slices.Contains(before.Warnings, warning) {
			h.Log.Warn().Msg(warning)
		}
	}
	taken, waiting := h.changes(before, next, values)
	if len(taken) == 0 {
		h.Log.Info().Msg("reload: no setting that can change while leafd runs has changed")
	} else {
		h.Log.Info().Strs("taken", taken).Msg("reload: settings taken")
	}
	if len(waiting) > 0 {
		h.Log.Warn().Strs("settings", waiting).Msg("reload: these settings have changed and need a restart: the old values stay in force")
	}
}

// changes returns the settings that were taken, with old and new values, and the names
// of those that need a restart. The former are then the ones in force.
func (h *ReloadOnSIGHUP) changes(before, next settings.Config, after *settings.Values) (taken, waiting []string) {
	content := map[string]bool{ // of files that have changed
		"admin-token-file": before.HTTP.AdminToken != next.HTTP.AdminToken,
		"tokens-file":      !reflect.DeepEqual(before.HTTP.Callers, next.HTTP.Callers),
		"zk-auth-file":     !reflect.DeepEqual(before.ZooKeeper.Auth, next.ZooKeeper.Auth),
	}
	for _, v := range after.All {
		name, old := v.Setting.Name, h.Values.Find(v.Setting.Name)
		was, is := old.Shown(), v.Shown()
		switch {
		case !reflect.DeepEqual(old.Parsed, v.Parsed):
		case content[name]:
			was, is = "(content)", "(new content)"
		default:
			continue
		}
		if v.Setting.Live && (name != "mysql" || h.Reload.current().Segment.MySQL == next.Segment.MySQL) {
			taken = append(taken, fmt.Sprintf("%s: %s -> %s", name, was, is))
			old.Parsed = v.Parsed
		} else {
			waiting = append(waiting, name)
		}
	}
	return taken, waiting
}
