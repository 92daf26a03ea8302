package loadtest

import (
	"bufio"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParseIDs compares parseIDs with strconv.
func FuzzParseIDs(f *testing.F) {
	for _, s := range []string{"", "1", "1\n", "1\n2", "1\n2\n", "0", "00", "01", "9223372036854775807", "9223372036854775808", "99999999999999999999", "-1", "+1", "1 ", "\n", "1\n\n2", "1\r\n", "x", "1-2\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var want []int64
		wantOK := true
		for line := range strings.Lines(string(body)) {
			text := strings.TrimSuffix(line, "\n")
			id, err := strconv.ParseInt(text, 10, 64)
			wantOK = err == nil && id >= 0 && strconv.FormatInt(id, 10) == text
			want = append(want, id)
			if !wantOK {
				break
			}
		}
		got, ok := parseIDs(nil, body)
		require.Equal(t, wantOK, ok)
		if ok {
			require.Equal(t, want, got)
		}
	})
}

func TestCodeOf(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"code":"overloaded","message":"x"}`: "overloaded",
		`{"code":""}`:                         "",
		`{"code":5}`:                          "",
		`{"message":"x"}`:                     "",
		``:                                    "",
		`{"code":"unended`:                    "",
	} {
		require.Equal(t, want, codeOf([]byte(body)), body)
	}
}

// TestReadingAllocatesNothing: what the load costs is taken from what it measures.
func TestReadingAllocatesNothing(t *testing.T) {
	const text = "HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 10:00:00 GMT\r\nContent-Type: text/plain; charset=utf-8\r\n" +
		"Content-Length: 19\r\nCache-Control: no-store\r\n\r\n2011672563203100739"
	in := strings.NewReader(text)
	c := &conn{in: bufio.NewReaderSize(in, headLimit)}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		in.Reset(text)
		c.in.Reset(in)
		if a, err := c.read(); err != nil || !a.good {
			panic(err)
		}
	}))
	require.Equal(t, []int64{2011672563203100739}, c.ids)
}
