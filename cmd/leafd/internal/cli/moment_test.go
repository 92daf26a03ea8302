package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/clitest"
)

func TestParseMoment(t *testing.T) {
	t.Parallel()
	now := clock.MillisOf(clitest.Now)
	for _, tc := range []struct{ text, want string }{
		{"2026-11-21T10:00:00Z", "2026-11-21T10:00:00.000Z"},
		{"2026-11-21T10:00:00+01:00", "2026-11-21T09:00:00.000Z"},
		{"2026-11-21T10:00:00.5-05:30", "2026-11-21T15:30:00.500Z"},
		{"2026-11-21T10:00:00.1239999Z", "2026-11-21T10:00:00.123Z"},
		{"2026-11-21T10:00:00", "2026-11-21T10:00:00.000Z"},
		{"2026-11-21T10:00:00.123", "2026-11-21T10:00:00.123Z"},
		{"2026-11-21 10:00:00.123", "2026-11-21T10:00:00.123Z"},
		{"2026-11-21 10:00:00Z", "2026-11-21T10:00:00.000Z"},
		{"2026-11-21 10:00:00 +02:00", "2026-11-21T08:00:00.000Z"},
		{"2026-11-21 10:00:00.25+02:00", "2026-11-21T08:00:00.250Z"},
		{"2026-11-21 10:00", "2026-11-21T10:00:00.000Z"},
		{"2026-11-21T10:00+01:00", "2026-11-21T09:00:00.000Z"},
		{"2026-11-21", "2026-11-21T00:00:00.000Z"},
		{" 2026-11-21\n", "2026-11-21T00:00:00.000Z"},
		{"1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999Z"},
		{"0", "1970-01-01T00:00:00.000Z"},
		{"1795255200", "2026-11-21T10:00:00.000Z"},
		{"1795255200123", "2026-11-21T10:00:00.123Z"},
		{"20261121", "1970-08-23T12:05:21.000Z"},
		{"99999999999", "5138-11-16T09:46:39.000Z"},
		{"100000000000", "1973-03-03T09:46:40.000Z"},
		{"now", "2026-11-21T10:00:00.123Z"},
		{"-1h", "2026-11-21T09:00:00.123Z"},
		{"+1h30m", "2026-11-21T11:30:00.123Z"},
		{"now-500ms", "2026-11-21T09:59:59.623Z"},
		{"now+1s", "2026-11-21T10:00:01.123Z"},
		{"-7d", "2026-11-14T10:00:00.123Z"},
		{"now-1d12h", "2026-11-19T22:00:00.123Z"},
		{"-0s", "2026-11-21T10:00:00.123Z"},
	} {
		got, err := parseMoment(tc.text, now)
		require.NoError(t, err, tc.text)
		require.Equal(t, tc.want, got.String(), tc.text)
	}
	for _, text := range []string{
		"", " ", "yesterday", "nowish", "now1h", "now-", "now 1h", "-", "+", "-1", "-h", "--1h", "-+1h", "-1d-1h", "-d", "-1.5d", "-99999d", "-1h1d",
		"-65535d2000000h", "2026-13-01", "2026-02-30", "2026-11-21T25:00:00Z", "21.11.2026", "11/21/2026", "10:00", "2026-11-21T10:00:00 CET",
		"1795255200.5", "123456789012345", "1795255200123456", "9999999999999999999999", "１２",
	} {
		_, err := parseMoment(text, now)
		require.ErrorIs(t, err, errNoMoment, "%q", text)
	}
}

// FuzzParseMoment: nothing panics, and a moment printed is read as itself.
func FuzzParseMoment(f *testing.F) {
	for _, seed := range []string{
		"now", "-1h", "now-1d12h", "2026-11-21", "2026-11-21T10:00:00.123+01:00", "1795255200123", "9999-12-31 23:59", "-65535d", "+9223372036s",
	} {
		f.Add(seed, int64(1795255200123))
	}
	f.Fuzz(func(t *testing.T, text string, now int64) {
		// A clock between 1970 and 9999: other readings have no RFC 3339 form.
		now = max(0, min(now, 253402300799999))
		got, err := parseMoment(text, clock.Millis(now))
		if err != nil {
			require.ErrorIs(t, err, errNoMoment)
			return
		}
		if year := got.Time().Year(); year < 0 || year > 9999 {
			return
		}
		again, err := parseMoment(got.Time().Format(time.RFC3339Nano), clock.Millis(now))
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}

func TestRelativeTimes(t *testing.T) {
	t.Parallel()
	const now = clock.Millis(1_800_000_000_000)
	for _, tc := range []struct {
		time clock.Millis
		want string
	}{
		{0, "never"},
		{now, "0s ago"},
		{now.Add(-1400 * time.Millisecond), "1.4s ago"},
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
