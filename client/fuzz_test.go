package client

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzParseRanges compares parseRanges with strconv: n IDs, first-last a line as leafd writes
// them, each above the one before, or ErrBadResponse.
func FuzzParseRanges(f *testing.F) {
	for _, s := range []string{
		"", "1-1\n", "1-1", "1-2\n", "1\n2\n", "1-1\n2-2\n", "2-2\n1-1\n", "1-2\n2-3\n", "2-1\n", "0-0\n", "00-1\n", "-1\n", "+1-2\n", "9223372036854775807-9223372036854775807\n", "0-9223372036854775808\n", "\n", "1-1\n\n2-2\n", "1-1\r\n", " 1-1\n", "1--1\n", "1-1-1\n",
	} {
		for n := range 4 {
			f.Add([]byte(s), n)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, n int) {
		if n < 0 || n > 1<<16 {
			return
		}
		var want []int64
		ok := len(body) == 0 || body[len(body)-1] == '\n'
		last := int64(-1)
		for line := range strings.Lines(string(body)) {
			from, to, found := strings.Cut(strings.TrimSuffix(line, "\n"), "-")
			first, err1 := strconv.ParseInt(from, 10, 64)
			end, err2 := strconv.ParseInt(to, 10, 64)
			ok = ok && found && err1 == nil && err2 == nil && strconv.FormatInt(first, 10) == from && strconv.FormatInt(end, 10) == to &&
				first > last && end >= first && end-first < int64(n-len(want))
			if !ok {
				break
			}
			for id := range end - first + 1 {
				want = append(want, first+id)
			}
			last = end
		}
		runs, err := parseRanges(body, n)
		require.Equal(t, ok && len(want) == n, err == nil, "%q: %v", body, err)
		if err != nil {
			require.ErrorIs(t, err, ErrBadResponse)
			require.Nil(t, runs)
			require.Less(t, len(err.Error()), 1000)
			return
		}
		one, some := &batch{runs: runs, size: int64(n)}, &batch{runs: runs, size: int64(n)}
		got := make([]int64, 3)
		for i, id := range want {
			require.Equal(t, id, one.id(int64(i)))
			if i%3 == 0 {
				taken, _ := some.take(got)
				require.Equal(t, want[i:min(i+3, n)], got[:taken])
			}
		}
	})
}

// FuzzRefusal: a response that is no 200 is a daemon's refusal with a code, and a
// time to wait that is one; or it isn't leafd's.
func FuzzRefusal(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 503 x\r\nRetry-After: 1\r\nContent-Length: 35\r\n\r\n{\"code\":\"overloaded\",\"message\":\"m\"}", "HTTP/1.1 503 x\r\nRetry-After: 9999999999\r\n\r\n{\"code\":\"a\"}", "HTTP/1.1 404 x\r\n\r\nno such page",
		"HTTP/1.1 503 x\r\nRetry-After: 18446744074\r\n\r\n{\"code\":\"a\"}", "HTTP/1.1 503 x\r\nRetry-After: -1\r\n\r\n{\"code\":\"a\"}", "HTTP/1.1 503 x\r\nRetry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\n\r\n{\"code\":\"a\"}", "HTTP/1.1 302 x\r\n\r\n{\"code\":5}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
		if err != nil {
			return
		}
		err = (&daemon{base: "http://d"}).refusal(resp)
		require.NoError(t, resp.Body.Close())
		require.Error(t, err)
		var e *Error
		if !errors.As(err, &e) {
			return
		}
		require.NotEmpty(t, e.Code)
		require.Equal(t, resp.StatusCode, e.Status)
		require.GreaterOrEqual(t, e.RetryAfter, time.Duration(0))
		require.LessOrEqual(t, e.RetryAfter, longestRetryAfter)
		if seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 64); err == nil && seconds > 0 {
			require.Positive(t, e.RetryAfter)
		}
	})
}

// FuzzParseSlice: of a slice that is taken, IDs have its numbers and no negative one, at any time.
func FuzzParseSlice(f *testing.F) {
	f.Add([]byte(`{"slice":"a","worker":7,"datacenter":0,"first":2064,"last":2079,"from":5,"until":90,"now":6,"epoch":0,"layout":"41+10+12"}`), int64(1000))
	f.Add([]byte(`{"slice":"a","worker":0,"datacenter":0,"first":0,"last":0,"from":0,"until":1,"now":0,"epoch":0,"layout":"1+0+1+61"}`), int64(0))
	f.Add([]byte(`{"slice":"a","layout":"63+0+0"}`), int64(-1))
	f.Fuzz(func(t *testing.T, body []byte, at int64) {
		l, err := parseSlice(body, "a", 0, time.Hour)
		if err != nil {
			require.ErrorIs(t, err, ErrBadResponse)
			require.Less(t, len(err.Error()), 2000)
			return
		}
		id, _ := l.take(l.begins + time.Duration(at))
		require.Equal(t, at >= 0 && at < int64(l.lasts), id >= 0)
		if id >= 0 {
			require.Equal(t, l.from-l.epoch+at/1e6, id>>l.shift)
			require.Equal(t, l.bits, min(l.bits, id&(1<<l.shift-1)))
			require.Less(t, id&(1<<l.shift-1)-l.bits, l.size)
		}
	})
}
