package loadtest

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzTarget: a URL that is taken has an address to connect to, and its request is
// the one request that is meant, regardless of what stands in URL and key.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{
		"http://127.0.0.1:8080", "https://h/p%2Fq/", "unix:/run/leafd.sock", "unix://x", "unix:", "http://[::1]:80/", "http://[fe80::1%25eth0]:80", "http://u:p@h/", "http://h/?n=1", "http://h/#x", "ftp://h/", "http://:80", "http://h:0x", "http://a b/",
		"http://h/\r\nX: y", "HTTP://H", "http://h/%0d%0aX:y", "http://é/", "//h", "http:h", "http://h:99999/",
	} {
		f.Add(s, "order", 1)
		f.Add(s, "a/b ?#%\r\n", 1000)
	}
	f.Fuzz(func(t *testing.T, raw, key string, n int) {
		to, err := parseTarget(raw, nil)
		if err != nil {
			require.ErrorIs(t, err, ErrConfig)
			return
		}
		text := to.request("segment", key, n)
		reader := bufio.NewReader(bytes.NewReader(text))
		request, err := http.ReadRequest(reader)
		if err != nil {
			require.ErrorContains(t, err, "malformed Host header", "%q", text) // the daemon refuses it
			return
		}
		require.Zero(t, reader.Buffered(), "%q is more than one request", text)
		require.True(t, strings.HasSuffix(request.URL.Path, "/api/segment/get/"+key), "%q asks for %q", text, request.URL.Path)
		require.Empty(t, request.Header)
		require.Equal(t, n > 1, request.URL.RawQuery != "")
	})
}
