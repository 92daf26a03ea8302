package server

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// Only a plain host of a request for IDs is taken out: every other one stays for
// fasthttp to judge, which answers 400 to a bad one.
func TestWithoutHost(t *testing.T) {
	for _, tt := range []struct{ target, host, want string }{
		{"/api/snowflake/get/x", "localhost:8080", "-"},
		{"/api/segment/get/x?n=3", "Leaf-1.example.org", "-"},
		{"/api/segment/get/x", "", "-"},
		{"/api/segment/get/x", "[::1]:8080", "[::1]:8080"},
		{"/api/segment/get/x", "bad host", "bad host"},
		{"/api/segment/get/x", "a@b", "a@b"},
		{"/metrics", "localhost:8080", "localhost:8080"},
		{"//api/snowflake/get/x", "localhost", "localhost"},
	} {
		var h fasthttp.RequestHeader
		h.SetRequestURI(tt.target)
		h.SetHost(tt.host)
		withoutHost(&h)
		require.Equal(t, tt.want, string(h.Host()), "%s %s", tt.target, tt.host)
	}
}

// A request that says twice how long it is gets the last answer of its connection:
// what comes after it is never taken for a request.
func TestFramedTwice(t *testing.T) {
	r := start(t, nil)
	for _, tt := range []struct {
		name, header, body string
		last               bool
	}{
		{"length, chunks", "Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n", true},
		{"chunks, length", "Transfer-Encoding: chunked\r\nX: y\r\nContent-Length: 0", "0\r\n\r\n", true},
		{"other case", "transfer-encoding:CHUNKED\r\ncontent-length:5", "0\r\n\r\n", true},
		{"identity", "Content-Length: 2\r\nTransfer-Encoding: identity", "ab", true},
		{"empty", "Content-Length: 0\r\nTransfer-Encoding: identity", "", true},
		{"length", "Content-Length: 5\r\nX: Transfer-Encoding: chunked", "0\r\n\r\n", false},
		{"chunks", "Transfer-Encoding: chunked\r\nX-Content-Length: 5", "0\r\n\r\n", false},
		{"neither", "X: y", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			used := r.used()
			c := r.dial()
			send(t, c, "GET /api/snowflake/get/x HTTP/1.1\r\nHost: x\r\n"+tt.header+"\r\n\r\n"+tt.body+oneID)
			in := newReader(c)
			resp, err := http.ReadResponse(in, nil)
			require.NoError(t, err)
			require.Equal(t, tt.last, resp.Close)
			require.Equal(t, http.StatusOK, readAnswer(t, resp).status)
			if tt.last {
				_, err := in.ReadByte()
				require.ErrorIs(t, err, io.EOF)
				require.Equal(t, used+1, r.used())
				return
			}
			resp, err = http.ReadResponse(in, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, readAnswer(t, resp).status)
		})
	}
}

func TestDateMoves(t *testing.T) {
	r := start(t, nil)
	first := r.get("/healthz").header.Get("Date")
	require.Eventually(t, func() bool { return r.get("/healthz").header.Get("Date") != first }, 10*time.Second, 50*time.Millisecond)
}
