package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/clitest"
)

// The IDs here were reckoned by hand. 1795255200123 ms is clitest.Now, so that its ID
// of worker 7 and sequence 42 is (1795255200123 - 1288834974657) * 2^22 + 7 * 2^12 + 42
// = 2124080377352974378.

func TestIDDecode(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args []string
		env  map[string]string
		want []string
	}{
		{
			name: "one", args: []string{"2124080377352974378"},
			want: []string{"ID TIME WORKER SEQUENCE", "2124080377352974378 2026-11-21T10:00:00.123Z 7 42"},
		},
		{
			name: "several, zero and the largest among them", args: []string{"0", "9223372036854775807", "2124080377352974378"},
			want: []string{
				"ID TIME WORKER SEQUENCE", "0 2010-11-04T01:42:54.657Z 0 0",
				"9223372036854775807 2080-07-10T17:30:30.208Z 1023 4095", "2124080377352974378 2026-11-21T10:00:00.123Z 7 42",
			},
		},
		{
			name: "datacenter", args: []string{"--layout=41+5+5+12", "2124080377352974378", "131072"},
			want: []string{
				"ID TIME WORKER SEQUENCE DATACENTER", "2124080377352974378 2026-11-21T10:00:00.123Z 7 42 0",
				"131072 2010-11-04T01:42:54.657Z 0 0 1",
			},
		},
		{
			name: "layout of the environment", args: []string{"3"}, env: map[string]string{"LEAFD_LAYOUT": "61+1+1", "LEAFD_EPOCH": "1000"},
			want: []string{"ID TIME WORKER SEQUENCE", "3 1970-01-01T00:00:01.000Z 1 1"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out := invocation{args: append([]string{"id", "decode"}, tc.args...), env: tc.env}.run(t).OK(t)
			var got []string
			for line := range strings.Lines(out) {
				got = append(got, strings.Join(strings.Fields(line), " "))
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestIDDecodeJSON(t *testing.T) {
	t.Parallel()
	require.JSONEq(t, `[{"id":"2124080377352974378","time":"2026-11-21T10:00:00.123Z","timestamp":1795255200123,"worker":7,"sequence":42,"layout":"41+10+12"}]`,
		leafd(t, "id", "decode", "-o", "json", "2124080377352974378").OK(t))
	require.JSONEq(t, `[{"id":"0","time":"2010-11-04T01:42:54.657Z","timestamp":1288834974657,"datacenter":0,"worker":0,"sequence":0,"layout":"41+5+5+12"}]`,
		leafd(t, "id", "decode", "-o", "json", "--layout=41+5+5+12", "0").OK(t))
}

func TestIDDecodeRefuses(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"order", "", "9223372036854775808", strings.Repeat("9", 1000)} { // FuzzReadIDs has more
		leafd(t, "id", "decode", "1", id, "2").Failed(t, ExitUsage, `bad_id: a snowflake ID is a decimal number`)
	}
	leafd(t, "id", "decode", "--layout=10+1+1", "4096").Failed(t, ExitUsage, `"4096": not an ID of this layout`)
	leafd(t, "id", "decode", "--layout=10", "4096").Failed(t, ExitUsage, `--layout is "10"`)
	leafd(t, "id", "decode", "-5").Failed(t, ExitUsage, "-5")
}

func TestIDAt(t *testing.T) {
	t.Parallel()
	layout := snowflake.DefaultLayout()
	at := func(text string) clock.Millis {
		parsed, err := time.Parse(time.RFC3339Nano, text)
		require.NoError(t, err)
		return clock.MillisOf(parsed)
	}
	for _, tc := range []struct {
		name        string
		args        []string
		from, until string
	}{
		{"moment", []string{"2026-11-21T10:00:00.123Z"}, "2026-11-21T10:00:00.123Z", "2026-11-21T10:00:00.123Z"},
		{"a day", []string{"2026-11-21"}, "2026-11-21T00:00:00Z", "2026-11-21T23:59:59.999Z"},
		{"the layout's first", []string{"2010-11-04T01:42:54.657Z"}, "2010-11-04T01:42:54.657Z", "2010-11-04T01:42:54.657Z"},
		{"the layout's last", []string{"2080-07-10T17:30:30.208Z"}, "2080-07-10T17:30:30.208Z", "2080-07-10T17:30:30.208Z"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := clitest.FromJSON[jsonRange](t, leafd(t, append([]string{"id", "at", "-o", "json"}, tc.args...)...).OK(t))
			first, _, err := layout.Range(at(tc.from))
			require.NoError(t, err)
			_, last, err := layout.Range(at(tc.until))
			require.NoError(t, err)
			require.Equal(t, jsonRange{From: at(tc.from).String(), Until: at(tc.until).String(), First: Decimal(first), Last: Decimal(last)}, got)
		})
	}
	out := leafd(t, "id", "at", "2026-11-21T10:00:00.123Z").OK(t)
	require.Equal(t, []string{
		"FIRST", "LAST", "FROM", "UNTIL",
		"2124080377352945664", "2124080377357139967", "2026-11-21T10:00:00.123Z", "2026-11-21T10:00:00.123Z",
	}, strings.Fields(out))
}

func TestIDAtRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args []string
		says []string
	}{
		{"no time", []string{"tomorrow"}, []string{`not a time: "tomorrow"`}},
		{"before the epoch", []string{"2010-11-04"}, []string{"time outside the layout: 2010-11-04T00:00:00.000Z"}},
		{"past the end", []string{"2080-07-10T17:30:30.209Z"}, []string{"time outside the layout", "2080-07-10T17:30:30.208Z"}},
		{"a day that ends past the end", []string{"2080-07-10"}, []string{"time outside the layout"}},
		{"nothing", nil, []string{"[flags]\", and got "}},
		{"unquoted", []string{"2026-11-21", "10:00"}, []string{"[flags]\", and got "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			leafd(t, append([]string{"id", "at"}, tc.args...)...).Failed(t, ExitUsage, tc.says...)
		})
	}
}
