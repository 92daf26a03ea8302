package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
)

func TestParseMoment(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, want string }{
		{"2026-11-21T10:00:00Z", "2026-11-21T10:00:00.000Z"},
		{"2026-11-21T10:00:00+01:00", "2026-11-21T09:00:00.000Z"},
		{"2026-11-21T10:00:00.5-05:30", "2026-11-21T15:30:00.500Z"},
		{"2026-11-21T10:00:00.1239999Z", "2026-11-21T10:00:00.123Z"},
		{"2026-11-21T10:00:00", "2026-11-21T10:00:00.000Z"},
		{"2026-11-21T10:00:00.123", "2026-11-21T10:00:00.123Z"},
		{"2026-11-21 10:00:00.123", "2026-11-21T10:00:00.123Z"},
		{"2026-11-21 10:00:00Z", "2026-11-21T10:00:00.000Z"},
		{"2026-11-21 10:00:00.25+02:00", "2026-11-21T08:00:00.250Z"},
		{"2026-11-21 10:00", "2026-11-21T10:00:00.000Z"},
		{"2026-11-21T10:00+01:00", "2026-11-21T09:00:00.000Z"},
		{"1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999Z"},
		{"0", "1970-01-01T00:00:00.000Z"},
		{"1795255200", "2026-11-21T10:00:00.000Z"},
		{"1795255200123", "2026-11-21T10:00:00.123Z"},
		{"20261121", "1970-08-23T12:05:21.000Z"},
		{"99999999999", "5138-11-16T09:46:39.000Z"},
		{"100000000000", "1973-03-03T09:46:40.000Z"},
	} {
		first, last, err := parseMoment(tc.text)
		require.NoError(t, err, tc.text)
		require.Equal(t, tc.want, first.String(), tc.text)
		require.Equal(t, first, last, tc.text)
	}
	first, last, err := parseMoment("2026-11-21")
	require.NoError(t, err)
	require.Equal(t, "2026-11-21T00:00:00.000Z 2026-11-21T23:59:59.999Z", first.String()+" "+last.String())
	for _, text := range []string{
		"", " ", " 2026-11-21", "yesterday", "now", "-", "+", "-1", "+1", "-1h", "2026-13-01", "2026-02-30", "2026-11-21T25:00:00Z", "21.11.2026", "11/21/2026", "10:00", "2026-11-21T10:00:00 CET",
		"1795255200.5", "123456789012345", "1795255200123456", "9999999999999999999999", "１２",
	} {
		_, _, err := parseMoment(text)
		require.ErrorIs(t, err, errNoMoment, "%q", text)
	}
}

// FuzzParseMoment: nothing panics, and a moment printed is read as itself.
func FuzzParseMoment(f *testing.F) {
	for _, seed := range []string{
		"now", "2026-11-21", "2026-11-21T10:00:00.123+01:00", "1795255200123", "9999-12-31 23:59",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, last, err := parseMoment(text)
		if err != nil {
			require.ErrorIs(t, err, errNoMoment)
			return
		}
		for _, got := range []clock.Millis{first, last} {
			if year := got.Time().Year(); year < 0 || year > 9999 { // others have no RFC 3339 form
				continue
			}
			again, _, err := parseMoment(got.Time().Format(time.RFC3339Nano))
			require.NoError(t, err)
			require.Equal(t, got, again)
		}
	})
}

func TestRelativeTimes(t *testing.T) {
	t.Parallel()
	const now = clock.Millis(1_800_000_000_000)
	for _, tc := range []struct {
		time clock.Millis
		want string
	}{
		{now, "0s ago"},
		{now.Add(-1400 * time.Millisecond), "1.4s ago"},
		{now.Add(-7 * time.Millisecond), "7ms ago"},
		{now.Add(-42 * time.Second), "42s ago"},
		{now.Add(-65 * time.Second), "1m05s ago"},
		{now.Add(-3*time.Hour - 7*time.Minute), "3h07m ago"},
		{now.Add(-47*time.Hour - 59*time.Minute), "47h59m ago"},
		{now.Add(-73 * time.Hour), "3d01h ago"},
		{now.Add(4 * time.Second), "in 4s"},
	} {
		require.Equal(t, tc.want, formatRelative(tc.time, now))
	}
}
