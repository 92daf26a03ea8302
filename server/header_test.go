package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids"
)

// A request that may say twice how long it is gets the last answer of its connection:
// what comes after it is never taken for a request. Where that isn't in doubt, but can't be known, it has none.
const (
	continued = "HTTP/1.1 100 Continue\r\n\r\n" // it asks for a body
	bodyBytes = 64 << 10
	smallBody = 1 << 10
)

func TestFramedTwice(t *testing.T) {
	r := start(t, nil)
	for _, tt := range []struct {
		name, header, body string
		last               bool
		status             int
	}{
		{"length, chunks", "Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n", true, 200},
		{"chunks, length", "Transfer-Encoding: chunked\r\nX: y\r\nContent-Length: 0", "0\r\n\r\n", true, 200},
		{"identity", "Content-Length: 2\r\nTransfer-Encoding: identity", "ab", true, 400},
		{"another coding", "Transfer-Encoding: gzip, chunked", "0\r\n\r\n", true, 400},
		{"a name with a space", "Content-Length: 0\r\nTransfer Encoding: chunked", "", true, 400},
		{"a space before the colon", "X : y", "", true, 400},
		{"a line that goes on", "X: y\r\n Z: chunked", "", true, 400},
		{"length", "Content-Length: 5\r\nX-Content-Length: 6", "0\r\n\r\n", false, 200},
		{"chunks", "Transfer-Encoding: chunked\r\nX-Content-Length: 5", "0\r\n\r\n", true, 200},
		{"close", "Connection: close", "", true, 200},
		{"close in a list", "Connection: X-Y , Close", "", true, 200},
		{"no close", "Connection: keep-alive, closed", "", false, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			used := r.used()
			c := r.dial()
			send(t, c, "GET /api/snowflake/get/x HTTP/1.1\r\nHost: x\r\n"+tt.header+"\r\n\r\n"+tt.body+oneID)
			in := newReader(c)
			a := next(t, in)
			require.Equal(t, tt.last, a.closes)
			require.Equal(t, tt.status, a.status)
			if tt.last {
				_, err := in.ReadByte()
				require.ErrorIs(t, err, io.EOF)
				if tt.status == http.StatusOK {
					used++
				}
				require.Equal(t, used, r.used())
				return
			}
			require.Equal(t, http.StatusOK, next(t, in).status)
		})
	}
}

// A body is asked for only where it will be taken.
func TestContinue(t *testing.T) {
	r := start(t, nil)
	const create = "POST /api/segments HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nAuthorization: Bearer "
	for _, tt := range []struct {
		name, head, body string
		asked            bool
		status           int
	}{
		{"a change", create + token + "\r\nContent-Length: 23\r\n\r\n", `{"tag":"new","step":10}`, true, 201},
		{"too large a change", create + token + "\r\nContent-Length: 70000\r\n\r\n", "", false, 413},
		{"without the token", create + "x\r\nContent-Length: 23\r\n\r\n", "", false, 401},
		{"an ID", "POST " + snowflakePrefix + "x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n", "", false, 200},
		{"HTTP/1.0", "POST " + snowflakePrefix + "x HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab", "", false, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := r.dial()
			send(t, c, tt.head)
			in := newReader(c)
			if tt.asked {
				asked := make([]byte, len(continued))
				_, err := io.ReadFull(in, asked)
				require.NoError(t, err)
				require.Equal(t, continued, string(asked))
				send(t, c, tt.body)
			}
			a := next(t, in)
			require.Equal(t, tt.status, a.status)
			require.Equal(t, !tt.asked, a.closes)
		})
	}
}

// What a page that points its own name at us may read.
func TestForeignHost(t *testing.T) {
	public, admin := startApart(t, func(c *Config) { c.Live.Hosts = []string{"IDs.example."} })
	alone := start(t, nil)
	const page = "Accept: text/html"
	for _, tt := range []struct {
		r       *running
		path    string
		foreign int
	}{
		{admin, "/api/overview", 403},
		{admin, "/api/history", 403},
		{public, "/api/clock", 403},
		{admin, "/api/workers", 403},
		{admin, "/api/segments", 403},
		{admin, "/db?tag=a", 403},
		{admin, "/cache/", 403},
		{admin, "/", 403},
		{public, "/api/snowflake/get/x", 200},
		{public, "/api/snowflake/decode/1", 200},
		{public, "/readyz", 200},
		{admin, "/metrics", 200},
	} {
		for _, host := range []string{"evil.example:80", "127.0.0.1.evil.example", "ids.example.evil", "*"} {
			a := tt.r.get(tt.path, page, "Host: "+host)
			require.Equal(t, tt.foreign, a.status, "%s of %s: %s", tt.path, host, a.body)
			if tt.foreign == 403 {
				a.requireError(t, 403, "host_refused")
				require.Contains(t, a.body, "--allow-host")
			}
		}
		for _, host := range []string{"127.0.0.1", "10.0.0.5:8080", "[::1]", "[::1]:8080", "localhost", "LocalHost:8080", "localhost."} {
			require.Equal(t, 200, tt.r.get(tt.path, page, "Host: "+host).status, "%s of %s", tt.path, host)
		}
	}
	require.Equal(t, 200, public.get("/", "Host: evil.example").status, "the list of endpoints")
	require.Equal(t, 200, public.get("/api/clock", "Host: ids.example:8080").status)
	require.Equal(t, 403, alone.get("/db", "Host: ids.example:8080").status)
	alone.SetLive(ids.Live{Hosts: []string{ids.AnyHost}})
	require.Equal(t, 200, alone.get("/db", "Host: evil.example").status)

	require.Equal(t, 200, admin.get("/debug/pprof/heap", bearer, "Host: evil.example").status)
	alone.SetLive(ids.Live{})

	for request, status := range map[string]int{
		"GET http://evil.example/db HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n":    403,
		"GET http://127.0.0.1/db HTTP/1.1\r\nHost: evil.example\r\n\r\n":    403,
		"GET //127.0.0.1/db?tag=:// HTTP/1.1\r\nHost: evil.example\r\n\r\n": 403,
		"GET /db HTTP/1.1\r\nHost: 127.0.0.1@evil.example\r\n\r\n":          403,
		"GET /db HTTP/1.0\r\n\r\n":                                          200,
		"GET /db HTTP/1.1\r\nHost: [fe80::1%evil.example]:8080\r\n\r\n":     400,
		"GET /db HTTP/1.1\r\nHost: evil.example\r\nHost: 127.0.0.1\r\n\r\n": 400,
	} {
		c := alone.dial()
		send(t, c, request)
		require.Equal(t, status, next(t, newReader(c)).status, request)
	}

	unix := listenUnix(t)
	public.also(unix, conn.Public)
	require.Equal(t, 200, public.at(unix).get("/api/clock", "Host: evil.example").status)
	s := startSecure(t, false, nil)
	require.Equal(t, 200, s.overTLS(s.ln, s.ca.Client(t)).get("/db", "Host: evil.example").status)
}

// A client without a token has no more than a KiB read, wherever it is sent.
func TestLargeBodiesNeedTheToken(t *testing.T) {
	alone, apart := start(t, nil), start(t, func(c *Config) { c.AdminApart = true })
	for _, test := range []struct {
		name   string
		r      *running
		target string
		header string
		most   int
	}{
		{"an ID", alone, "POST /api/snowflake/get/x", "", smallBody},
		{"an ID, with the token", alone, "POST /api/snowflake/get/x", bearer + "\r\n", smallBody},
		{"a change with another token", alone, "PATCH /api/segments/order", bearer + "x\r\n", smallBody},
		{"a change", alone, "POST /api/segments", bearer + "\r\n", bodyBytes},
		{"a change where there are none", apart, "POST /api/segments", bearer + "\r\n", smallBody},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, framed := range []func(n int) string{
				func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", n, strings.Repeat("x", n)) },
				func(n int) string {
					return fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", n, strings.Repeat("x", n))
				},
			} {
				status := func(n int) int {
					c := test.r.dial()
					go func() { _, _ = io.WriteString(c, test.target+" HTTP/1.1\r\nHost: 127.0.0.1\r\n"+test.header+framed(n)) }()
					return next(t, newReader(c)).status
				}
				require.NotEqual(t, 413, status(test.most))
				require.Equal(t, 413, status(test.most+1))
			}
		})
	}
}
