package loadtest

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzParseIDs compares ParseIDs with strconv, where the body isn't JSON.
func FuzzParseIDs(f *testing.F) {
	for _, s := range []string{"", "1", "1\n", "1\n2", "1\n2\n", "0", "00", "01", "9223372036854775807", "9223372036854775808", "99999999999999999999", "-1", "+1", "1 ", "\n", "1\n\n2", "1\r\n", "x", "1-2\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if bytes.HasPrefix(body, []byte("{")) {
			return
		}
		var want []int64
		wantOK := len(body) > 0
		for line := range strings.Lines(string(body)) {
			text := strings.TrimSuffix(line, "\n")
			id, err := strconv.ParseInt(text, 10, 64)
			wantOK = err == nil && id >= 0 && strconv.FormatInt(id, 10) == text
			want = append(want, id)
			if !wantOK {
				break
			}
		}
		got, ok := ParseIDs(nil, body)
		require.Equal(t, wantOK, ok)
		if ok {
			require.Equal(t, want, got)
		}
	})
}

// What is taken for IDs, and for a refusal, and that reading allocates nothing: what the load costs is taken from what it measures.
func TestReadingAnswers(t *testing.T) {
	const refusal = `{"code":"overloaded","message":"x"}`
	for body, want := range map[string]Answer{
		"5":                     {Good: true, IDs: []int64{5}},
		"5\n6\n9\n":             {Good: true, IDs: []int64{5, 6, 9}},
		`{"ids":["5","6"]}`:     {Good: true, IDs: []int64{5, 6}},
		"":                      {},
		`{"ids":["5","x"]}`:     {IDs: []int64{5}},
		refusal:                 {Code: "overloaded"},
		`{"code":"unended`:      {},
		"2011672563203100739\n": {Good: true, IDs: []int64{2011672563203100739}},
	} {
		text := fmt.Sprintf("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		in := strings.NewReader(text)
		c := &Conn{raw: silent{}, in: bufio.NewReaderSize(in, headLimit), unhurry: func() bool { return true }, Timeout: time.Hour}
		var a Answer
		ask := func() {
			in.Reset(text)
			c.in.Reset(in)
			var err error
			if a, err = c.once(t.Context(), nil); err != nil {
				panic(err)
			}
		}
		ask()
		require.Equal(t, want.Good, a.Good, body)
		require.Equal(t, want.Code, a.Code, body)
		require.Len(t, a.IDs, len(want.IDs), body)
		require.True(t, a.NoStore)
		if a.Good && body[0] != '{' {
			require.Zero(t, testing.AllocsPerRun(100, ask), body)
		}
	}
}

// silent takes what is written.
type silent struct{ net.Conn }

func (silent) Write(b []byte) (int, error) { return len(b), nil }
func (silent) SetDeadline(time.Time) error { return nil }
func (silent) Close() error                { return nil }
