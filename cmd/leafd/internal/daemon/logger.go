package daemon

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
)

// NewLogger returns the log, written to w: lines of JSON, and on a terminal lines for people. It also
// returns what sets the least severe level that is logged by settings, now and at each reload.
func NewLogger(w io.Writer, terminal bool) (log zerolog.Logger, apply func(settings.Config)) {
	w = visible{w}
	if terminal {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05.000"}
	}
	var least atomic.Int32
	// A logger's own level would not reach those that were made from it, and zerolog's global level
	// would change for all else that runs in the process.
	hook := zerolog.HookFunc(func(e *zerolog.Event, level zerolog.Level, _ string) {
		if level < zerolog.Level(least.Load()) { //nolint:gosec // it is a level's, -1 to 7
			e.Discard()
		}
	})
	return zerolog.New(w).Hook(hook).With().Timestamp().Logger(), func(cfg settings.Config) {
		parsed, _ := zerolog.ParseLevel(cfg.LogLevel) // the settings allow zerolog's levels alone
		least.Store(int32(parsed))
	}
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// visible writes lines of the log so that a terminal shows every character as itself:
// what zerolog leaves as it is, C1 controls and U+202E among it, becomes the escape that
// JSON has for it. ASCII is left alone: zerolog has escaped what isn't shown of it, and colours and
// line ends are its own. Tags, paths and descriptions were written by others.
type visible struct{ to io.Writer }

// Write implements io.Writer.
func (v visible) Write(line []byte) (int, error) {
	out := make([]byte, 0, len(line))
	for _, r := range string(line) {
		if r < utf8.RuneSelf || !segment.Hidden(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	_, err := v.to.Write(out)
	return len(line), err
}
