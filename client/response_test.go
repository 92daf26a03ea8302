package client

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBadResponses: of a response with a fault no ID is handed out.
func TestBadResponses(t *testing.T) {
	lines := func(n int, change func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(change(i))
		}
		return b.String()
	}
	good := func(i int) string { return fmt.Sprintf("%d-%d\n", 1_000_000+i, 1_000_000+i) }
	at := func(bad int, text string) func(int) string {
		return func(i int) string {
			if i == bad {
				return text
			}
			return good(i)
		}
	}
	for _, test := range []struct {
		name string
		body func(n int) string
	}{
		{"nothing", func(int) string { return "" }},
		{"one too few", func(n int) string { return lines(n-1, good) }},
		{"one too many", func(n int) string { return lines(n+1, good) }},
		{"no last newline", func(n int) string { return strings.TrimSuffix(lines(n, good), "\n") }},
		{"the same twice", func(n int) string { return lines(n, at(3, good(2))) }},
		{"a list", func(n int) string { return lines(n, func(i int) string { return fmt.Sprintf("%d\n", 1_000_000+i) }) }},
		{"a range too long", func(n int) string { return fmt.Sprintf("1000000-%d\n", 1_000_000+n) }},
		{"ends before it begins", func(n int) string { return lines(n, at(3, "1000003-1000002\n")) }},
		{"overlapping", func(n int) string { return lines(n, at(3, "1000002-1000003\n")) }},
		{"falling", func(n int) string { return lines(n, at(3, "7-7\n")) }},
		{"HTML", func(int) string { return "<html>sorry</html>" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.first(func(w http.ResponseWriter, n int) { _, _ = io.WriteString(w, test.body(n)) })
			var reported failures
			s := newClient(t, func(c *Config) { c.Failed = reported.add }, f).Snowflake("order")
			for want := int64(1); want < 200; want++ {
				id, err := s.Next(within(t))
				require.NoError(t, err)
				require.Equal(t, want, id, "none of the bad response's")
			}
			require.NotEmpty(t, reported.list())
			require.ErrorIs(t, reported.list()[0], ErrBadResponse)
			require.ErrorContains(t, reported.list()[0], f.URL)
		})
	}
}

// TestCutOff: a response that ends early is dropped whole.
func TestCutOff(t *testing.T) {
	f := newFake(t)
	f.first(func(w http.ResponseWriter, n int) {
		body := strings.Repeat("1000000\n", n)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = io.WriteString(w, body[:len(body)/2])
	})
	var reported failures
	id, err := newClient(t, func(c *Config) { c.Failed = reported.add }, f).Snowflake("order").Next(within(t))
	require.NoError(t, err)
	require.Equal(t, int64(1), id)
	require.ErrorIs(t, reported.list()[0], io.ErrUnexpectedEOF)
}

// TestLateResponse: what comes after the client has given up is never used.
func TestLateResponse(t *testing.T) {
	f := newFake(t)
	late := make(chan string)
	f.first(func(w http.ResponseWriter, n int) {
		body := f.issue(n)
		<-late // the client has gone on meanwhile
		_, _ = io.WriteString(w, body)
	})
	var reported failures
	s := newClient(t, func(c *Config) { c.RequestTimeout = 100 * time.Millisecond; c.Failed = reported.add }, f).Snowflake("order")
	id, err := s.Next(within(t))
	require.NoError(t, err)
	require.Greater(t, id, int64(firstSize), "a later response's")
	close(late)
	require.NotEmpty(t, reported.list())
	for range 1000 {
		next, err := s.Next(within(t))
		require.NoError(t, err)
		require.Greater(t, next, id)
		id = next
	}
}

// TestRequestsAreTheirOwn: no cache may answer one.
func TestRequestsAreTheirOwn(t *testing.T) {
	f := newFake(t)
	s := newClient(t, nil, f).Snowflake("order")
	require.NoError(t, s.NextN(within(t), make([]int64, 1000)))
	for _, target := range f.requests() {
		require.Regexp(t, `^POST /api/snowflake/get/order\?as=ranges&n=\d+ no-store$`, target)
	}
}

// TestRepeatedResponse: what a cache has kept of an earlier response is refused.
func TestRepeatedResponse(t *testing.T) {
	f := newFake(t)
	kept := map[int]string{} // by the number of IDs; requests come one after another
	f.do(func(w http.ResponseWriter, _ *http.Request, n int) bool {
		body, repeats := kept[n]
		if repeats {
			delete(kept, n)
		} else {
			body = f.issue(n)
			kept[n] = body
		}
		_, _ = io.WriteString(w, body)
		return true
	})
	var reported failures
	s := newClient(t, func(c *Config) { c.MaxAhead = 64; c.Failed = reported.add }, f).Snowflake("order")
	seen := map[int64]bool{}
	for range 150 {
		id, err := s.Next(within(t))
		require.NoError(t, err)
		require.False(t, seen[id], "%d twice", id)
		seen[id] = true
	}
	require.ErrorIs(t, reported.list()[0], ErrBadResponse)
	require.ErrorContains(t, reported.list()[0], "cached")
}

// TestRedirectIsNotFollowed: it may lead to any server.
func TestRedirectIsNotFollowed(t *testing.T) {
	elsewhere, f := newFake(t), newFake(t)
	f.first(func(w http.ResponseWriter, _ int) {
		w.Header().Set("Location", elsewhere.URL+"/api/snowflake/get/order?n=64")
		w.WriteHeader(http.StatusFound)
	})
	_, err := newClient(t, nil, f).Snowflake("order").Next(within(t))
	require.NoError(t, err)
	require.Empty(t, elsewhere.requests())
}

// TestSomebodyElsesResponse: what a cache keeps may have been given to another client, so
// that nothing else tells it from a fresh one.
func TestSomebodyElsesResponse(t *testing.T) {
	f := newFake(t)
	f.first(func(w http.ResponseWriter, n int) {
		w.Header().Set("Age", "0")
		_, _ = io.WriteString(w, f.issue(n))
	})
	id, err := newClient(t, nil, f).Snowflake("order").Next(within(t))
	require.NoError(t, err)
	require.Greater(t, id, int64(firstSize))
}
