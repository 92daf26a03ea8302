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
	for _, s := range []string{"", "1", "1\n", "1\n2", "1\n2\n", "0", "00", "01", "9223372036854775807", "9223372036854775808", "99999999999999999999", "-1", "+1", "1 ", "\n", "1\n\n2", "1\r\n", "x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var want []int64
		wantOK := true
		for line := range strings.Lines(string(body)) {
			text := strings.TrimSuffix(line, "\n")
			id, err := strconv.ParseInt(text, 10, 64)
			if err != nil || id < 0 || strconv.FormatInt(id, 10) != text {
				wantOK = false
				break
			}
			want = append(want, id)
		}
		got, ok := parseIDs(nil, body)
		require.Equal(t, wantOK, ok)
		require.Equal(t, want, got)
	})
}

func TestRedisAnswers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want answer
		err  bool
	}{
		"a number":            {":12\r\n:13\r\n", answer{ids: []int64{12}, good: true}, false},
		"an array":            {"*2\r\n:1\r\n:2\r\n:3\r\n", answer{ids: []int64{1, 2}, good: true}, false},
		"a refusal":           {"-segment_unavailable tag x: try later\r\n", answer{refused: true, code: "segment_unavailable", good: true}, false},
		"a negative number":   {":-1\r\n", answer{}, false},
		"one in an array":     {"*2\r\n:1\r\n:-2\r\n", answer{ids: []int64{1}}, false},
		"not whole":           {":12\r", answer{}, true},
		"an array, not whole": {"*2\r\n:1\r\n:2", answer{}, true},
		"an array of strings": {"*1\r\n$1\r\nx\r\n", answer{}, true},
		"not of a length":     {"*x\r\n", answer{}, true},
		"a word":              {"+OK\r\n", answer{}, true},
		"an empty line":       {"\r\n", answer{}, true},
		"a long line":         {":" + strings.Repeat("1", headLimit), answer{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &conn{in: bufio.NewReaderSize(strings.NewReader(tc.text), headLimit)}
			got, err := c.readRedis()
			if tc.err {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			got.text = nil
			require.Equal(t, tc.want.ids, append([]int64(nil), got.ids...))
			tc.want.ids, got.ids = nil, nil
			require.Equal(t, tc.want, got)
		})
	}
}

// TestReadingAllocatesNothing: what the load costs is taken from what it measures.
func TestReadingAllocatesNothing(t *testing.T) {
	const body = "2011672563203100739"
	for name, tc := range map[string]struct {
		text string
		read func(c *conn) (answer, error)
	}{
		"HTTP": {
			"HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 10:00:00 GMT\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 19\r\nCache-Control: no-store\r\n\r\n" + body,
			(*conn).readHTTP,
		},
		"Redis": {":" + body + "\r\n", (*conn).readRedis},
	} {
		in := strings.NewReader(tc.text)
		c := &conn{in: bufio.NewReaderSize(in, headLimit)}
		require.Zero(t, testing.AllocsPerRun(100, func() {
			in.Reset(tc.text)
			c.in.Reset(in)
			if a, err := tc.read(c); err != nil || !a.good {
				panic(err)
			}
		}), name)
		require.Equal(t, []int64{2011672563203100739}, c.ids)
	}
}
