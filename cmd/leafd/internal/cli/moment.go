package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/leafd/leafd/clock"
)

// momentHelp documents parseMoment.
const momentHelp = `TIME is one of
  2026-11-21T10:00:00.123+01:00   RFC 3339, with or without fraction and zone
  2026-11-21 10:00:00             the same with a space; seconds may be left out
  2026-11-21                      the start of that day
  1795255200                      up to 11 digits: seconds since 1970
  1795255200123                   12 to 14 digits: milliseconds since 1970
  now, -1h, +90s, -7d, now-1d12h  relative to this machine's clock; d is 24 hours
A time without a zone is UTC. What is finer than a millisecond is cut off.`

// momentLayouts are the forms with a date. Go accepts a fraction after the
// seconds of each of them.
func momentLayouts() []string {
	return []string{
		time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 Z07:00",
		"2006-01-02T15:04Z07:00", "2006-01-02 15:04Z07:00",
		"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04",
		"2006-01-02",
	}
}

// errNoMoment is what every unreadable time gets.
var errNoMoment = errors.New("not a time")

// parseMoment reads a time as a user writes it; see momentHelp.
func parseMoment(text string, now clock.Millis) (clock.Millis, error) {
	text = strings.TrimSpace(text)
	if isDigits(text) {
		return parseUnix(text)
	}
	if offset, found := strings.CutPrefix(text, "now"); found {
		if offset == "" {
			return now, nil
		}
		return parseOffset(text, offset, now)
	}
	if strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") {
		return parseOffset(text, text, now)
	}
	for _, layout := range momentLayouts() {
		if t, err := time.Parse(layout, text); err == nil {
			return clock.MillisOf(t), nil
		}
	}
	return 0, fmt.Errorf("%w: %q; want 2026-11-21T10:00:00Z, 2026-11-21, now, -1h, or seconds or milliseconds since 1970", errNoMoment, text)
}

// parseUnix reads a time in digits alone; how many there are tells the unit.
// Seconds of 11 digits reach to the year 5138, and milliseconds of 12 begin in
// 1973, so that nothing of this century is ambiguous.
func parseUnix(text string) (clock.Millis, error) {
	if len(text) > 14 {
		return 0, fmt.Errorf("%w: %q has %d digits; up to 11 are seconds since 1970, 12 to 14 milliseconds", errNoMoment, text, len(text))
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q: %w", errNoMoment, text, err)
	}
	if len(text) <= 11 {
		return clock.Millis(n * 1000), nil
	}
	return clock.Millis(n), nil
}

// parseOffset reads a signed duration, to which days may be a first part.
func parseOffset(text, offset string, now clock.Millis) (clock.Millis, error) {
	bad := fmt.Errorf("%w: %q; want a sign and a duration such as -1h, +90s or -1d12h", errNoMoment, text)
	if offset[0] != '-' && offset[0] != '+' {
		return 0, bad
	}
	var total time.Duration
	rest := offset[1:]
	if days, after, found := strings.Cut(rest, "d"); found {
		n, err := strconv.ParseUint(days, 10, 16) // 65535 days are inside a Duration
		if err != nil {
			return 0, bad
		}
		total, rest = time.Duration(n)*24*time.Hour, after
	}
	if rest != "" || total == 0 {
		d, err := time.ParseDuration(rest)
		if err != nil || strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, "+") || total > 0 && d > maxOffset-total {
			return 0, bad
		}
		total += d
	}
	if offset[0] == '-' {
		total = -total
	}
	return now.Add(total), nil
}

// maxOffset is the longest Duration, 292 years.
const maxOffset = time.Duration(1<<63 - 1)

func isDigits(text string) bool {
	for _, r := range text {
		if r < '0' || r > '9' {
			return false
		}
	}
	return text != ""
}

// relativeTime matches an argument that is a time such as -1h, which pflag
// would take for flags.
var relativeTime = regexp.MustCompile(`^-[0-9.]`)

// relativeTimes returns args with the relative times of `id at` in the form
// that begins with "now".
func relativeTimes(args []string) []string {
	if len(args) < 2 || args[0] != "id" || args[1] != "at" {
		return args
	}
	out := make([]string, len(args))
	for i, arg := range args {
		if relativeTime.MatchString(arg) {
			arg = "now" + arg
		}
		out[i] = arg
	}
	return out
}
