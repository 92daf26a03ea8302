package cli

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/leafd/leafd/clock"
)

// momentHelp documents parseMoment.
const momentHelp = `TIME is one of
  2026-11-21T10:00:00.123+01:00   RFC 3339, with or without fraction and zone
  2026-11-21 10:00:00             the same with a space; seconds may be left out
  2026-11-21                      that day, from its first to its last millisecond
  1795255200                      up to 11 digits: seconds since 1970
  1795255200123                   12 to 14 digits: milliseconds since 1970
A time without a zone is UTC. What is finer than a millisecond is cut off.`

// momentLayouts returns the forms with a time. Go accepts a fraction after the
// seconds of each of them.
func momentLayouts() []string {
	return []string{
		time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02 15:04Z07:00",
		"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04",
	}
}

// errNoMoment is what every unreadable time gets.
var errNoMoment = errors.New("not a time")

// parseMoment reads a time as a user writes it, and returns its first and its last
// millisecond; see momentHelp.
func parseMoment(text string) (first, last clock.Millis, err error) {
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return clock.MillisOf(day), clock.MillisOf(day.AddDate(0, 0, 1)) - 1, nil
	}
	for _, layout := range momentLayouts() {
		if t, err := time.Parse(layout, text); err == nil {
			return clock.MillisOf(t), clock.MillisOf(t), nil
		}
	}
	// Seconds of 11 digits reach to the year 5138, and milliseconds of 12 begin in 1973, so
	// that nothing of this century is ambiguous.
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || text[0] < '0' || len(text) > 14: // a sign
		return 0, 0, fmt.Errorf("%w: %q; want 2026-11-21T10:00:00Z, 2026-11-21, or seconds (up to 11 digits) or milliseconds (12 to 14) since 1970", errNoMoment, text)
	case len(text) <= 11:
		n *= 1000
	}
	return clock.Millis(n), clock.Millis(n), nil
}
