package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
)

// hangups reads the settings anew at each SIGHUP: the file and the files that it
// names. Flags and environment are those of the start.
type hangups struct {
	app    *app
	flags  *pflag.FlagSet
	log    zerolog.Logger
	reload *reloader
	told   func() (done func()) // app.reloading

	// values and start are what runs: each setting as it was taken last. Only run's
	// goroutine has them.
	values *values
	start  Config
}

// run reloads at each signal until ctx is done.
func (h *hangups) run(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			done := h.told()
			h.once(ctx)
			done()
		}
	}
}

// once is one reload. What comes of it is said in one line, and what can't be taken
// while the daemon runs in another.
func (h *hangups) once(ctx context.Context) {
	next, values, err := h.app.loadConfig(ctx, h.flags)
	if err == nil {
		err = h.reload.apply(next)
	}
	if err != nil {
		if ctx.Err() == nil { // else it is the stop that ended the reading
			h.refused(err)
		}
		return
	}
	for _, warning := range next.Warnings {
		if !slices.Contains(h.start.Warnings, warning) {
			h.log.Warn().Msg(warning)
		}
	}
	taken, waiting := h.changes(next, values)
	if len(taken) == 0 {
		h.log.Info().Msg("reload: no setting that can change while leafd runs has changed")
	} else {
		h.log.Info().Strs("taken", taken).Msg("reload: settings taken")
	}
	if len(waiting) > 0 {
		h.log.Warn().Strs("settings", waiting).Msg("reload: these settings have changed and need a restart: the old values stay in force")
	}
}

// refused tells why nothing was taken.
func (h *hangups) refused(err error) {
	line := h.log.Error()
	if problems := settingsError(nil); errors.As(err, &problems) {
		line = line.Strs("problems", problems)
	} else {
		line = line.Err(err)
	}
	line.Msg("reload: refused, and no setting has changed; mend this and send SIGHUP again")
}

// changes returns what was taken, with old and new values, and the names of what
// needs a restart. From then on what was taken is what runs.
func (h *hangups) changes(next Config, after *values) (taken, waiting []string) {
	for _, v := range after.all {
		before := h.values.find(v.setting.name)
		was, is := before.shown(), v.shown()
		switch {
		case !reflect.DeepEqual(before.parsed, v.parsed):
		case v.setting.name == "admin-token-file" && h.start.AdminToken != next.AdminToken,
			v.setting.name == "zk-auth-file" && !reflect.DeepEqual(h.start.ZKAuth, next.ZKAuth):
			was, is = "(content)", "(new content)"
		default:
			continue
		}
		if v.setting.live {
			taken = append(taken, fmt.Sprintf("%s: %s -> %s", v.setting.name, was, is))
			before.parsed = v.parsed
		} else {
			waiting = append(waiting, v.setting.name)
		}
	}
	h.start = h.start.withLive(next)
	return taken, waiting
}

// shown is a value as the log may have it.
func (v *value) shown() string {
	if v.setting.secret && v.parsed != "" {
		return "(hidden)"
	}
	if text, ok := v.parsed.(string); ok && text == "" {
		return `""`
	}
	return fmt.Sprint(v.parsed)
}
