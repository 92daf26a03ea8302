package loadtest

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParseIDs compares parseIDs with strconv.
func FuzzParseIDs(f *testing.F) {
	for _, s := range []string{"", "1", "1\n", "1\n2", "1\n2\n", "0", "00", "01", "9223372036854775807", "9223372036854775808", "99999999999999999999", "-1", "+1", "1 ", "\n", "1\n\n2", "1\r\n", "x"} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, whole bool) {
		var want []int64
		wantOK := true
		lines := strings.SplitAfter(string(body), "\n")
		for _, line := range lines {
			if line == "" {
				continue // after the last line's end
			}
			text, ended := strings.CutSuffix(line, "\n")
			isDigits := strings.Trim(text, "0123456789") == ""
			if !ended && !whole && isDigits {
				break
			}
			id, err := strconv.ParseInt(text, 10, 64)
			if err != nil || id < 0 || strconv.FormatInt(id, 10) != text {
				wantOK = false
				break
			}
			want = append(want, id)
		}
		got, ok := parseIDs(nil, body, whole)
		require.Equal(t, wantOK, ok)
		require.Equal(t, want, got)
	})
}

// FuzzParseHead: what is read in place reads as net/http reads it.
func FuzzParseHead(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "HTTP/1.1 503 x\r\ncontent-length:5\r\nConnection: close\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n", "HTTP/1.1 204 x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		end := bytes.Index(b, []byte("\r\n\r\n"))
		if end < 0 {
			return
		}
		b = b[:end+4]
		h := parseHead(b)
		if !h.plain {
			return
		}
		body := strings.Repeat("7", h.length)
		res, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(b), strings.NewReader(body))), nil)
		if err != nil {
			return // read in place all the same: nothing is made of its head but a length
		}
		require.Equal(t, res.StatusCode, h.status)
		got, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, body, string(got))
		if res.ContentLength >= 0 {
			require.Equal(t, int64(h.length), res.ContentLength)
		}
	})
}

func TestCodeOf(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"code":"overloaded","message":"x"}`: "overloaded",
		`{"code":"a1_b"`:                      "a1_b",
		`{"code":""}`:                         "",
		`{"code":"\u001b"}`:                   "",
		`{"code":"` + strings.Repeat("a", 65): "",
		`{"message":"x"}`:                     "",
		``:                                    "",
		`{"code":"unended`:                    "",
	} {
		require.Equal(t, want, codeOf([]byte(body)), body)
	}
}

// TestParsingAllocatesNothing: what the load costs is taken from what it measures.
func TestParsingAllocatesNothing(t *testing.T) {
	head := []byte("HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 10:00:00 GMT\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 19\r\nCache-Control: no-store\r\n\r\n")
	body := []byte("2011672563203100739")
	ids := make([]int64, 0, 1)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if h := parseHead(head); !h.plain || h.length != len(body) {
			panic(h)
		}
		ids, _ = parseIDs(ids[:0], body, true)
	}))
	require.Equal(t, []int64{2011672563203100739}, ids)
}
