package daemon

import (
	"context"
	"errors"
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

	// Values and Start are the settings in force. Run's goroutine alone uses them.
	Values *settings.Values
	Start  settings.Config
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
	next, values, err := h.Load(ctx)
	if err == nil {
		err = h.Reload.apply(next)
	}
	if err != nil {
		if ctx.Err() == nil { // else the stop ended the reading
			h.refused(err)
		}
		return
	}
	for _, warning := range next.Warnings {
		if !slices.Contains(h.Start.Warnings, warning) {
			h.Log.Warn().Msg(warning)
		}
	}
	taken, waiting := h.changes(next, values)
	if len(taken) == 0 {
		h.Log.Info().Msg("reload: no setting that can change while leafd runs has changed")
	} else {
		h.Log.Info().Strs("taken", taken).Msg("reload: settings taken")
	}
	if len(waiting) > 0 {
		h.Log.Warn().Strs("settings", waiting).Msg("reload: these settings have changed and need a restart: the old values stay in force")
	}
}

// refused logs why no setting has changed.
func (h *ReloadOnSIGHUP) refused(err error) {
	line := h.Log.Error()
	if problems := settings.Errors(nil); errors.As(err, &problems) {
		line = line.Strs("problems", problems)
	} else {
		line = line.Err(err)
	}
	line.Msg("reload: refused, and no setting has changed; fix this and send SIGHUP again")
}

// changes returns the settings that were taken, with old and new values, and the names
// of those that need a restart. The former are then the ones in force.
func (h *ReloadOnSIGHUP) changes(next settings.Config, after *settings.Values) (taken, waiting []string) {
	live := h.Start.WithLive(next)
	for _, v := range after.All {
		before := h.Values.Find(v.Setting.Name)
		was, is := before.Shown(), v.Shown()
		switch {
		case !reflect.DeepEqual(before.Parsed, v.Parsed):
		case v.Setting.Name == "admin-token-file" && h.Start.HTTP.AdminToken != next.HTTP.AdminToken,
			v.Setting.Name == "tokens-file" && !reflect.DeepEqual(h.Start.HTTP.Callers, next.HTTP.Callers),
			v.Setting.Name == "zk-auth-file" && !reflect.DeepEqual(h.Start.ZooKeeper.Auth, next.ZooKeeper.Auth):
			was, is = "(content)", "(new content)"
		default:
			continue
		}
		if v.Setting.Live && (v.Setting.Name != "mysql" || live.Segment.MySQL == next.Segment.MySQL) {
			taken = append(taken, fmt.Sprintf("%s: %s -> %s", v.Setting.Name, was, is))
			before.Parsed = v.Parsed
		} else {
			waiting = append(waiting, v.Setting.Name)
		}
	}
	h.Start = live
	return taken, waiting
}
