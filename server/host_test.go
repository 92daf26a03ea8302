package server

import (
	"testing"

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
		require.Zero(t, withoutHost(&h))
		require.Equal(t, tt.want, string(h.Host()), "%s %s", tt.target, tt.host)
	}
}
