package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/worker"
)

func TestSegmentStopUsage(t *testing.T) {
	t.Parallel()
	token := clitest.WriteFile(t, "token", clitest.AdminToken)
	for _, test := range []struct {
		name string
		args []string
		says string
	}{
		{"no tag", nil, "[flags]\", and got "},
		{"no daemon", []string{"x", "--admin-token-file", token}, "want --url, for each daemon, or --zk"},
		{"no token", []string{"x", "--url", "http://127.0.0.1:1"}, "--admin-token-file is missing"},
		{"no such token", []string{"x", "--url", "http://127.0.0.1:1", "--admin-token-file", "/none"}, "/none"},
		{"both", []string{"x", "--url", "http://127.0.0.1:1", "--zk", "127.0.0.1:1", "--admin-token-file", token}, "exclude each other"},
		{"bad URL", []string{"x", "--url", "127.0.0.1", "--admin-token-file", token}, "want http://host:port"},
		{"port with a URL", []string{"x", "--url", "http://127.0.0.1:1", "--admin-port", "5", "--admin-token-file", token}, "are for --zk"},
		{"bad port", []string{"x", "--zk", "127.0.0.1:1", "--admin-port", "65536", "--admin-token-file", token}, "want a port"},
		{"bad tag", []string{"a\nb", "--url", "http://127.0.0.1:1", "--admin-token-file", token}, "control character"},
		{"bad reason", []string{"x", "--reason", "a\nb", "--url", "http://127.0.0.1:1", "--admin-token-file", token}, "no control characters"},
		{"long reason", []string{"x", "--reason", strings.Repeat("x", 257), "--url", "http://127.0.0.1:1", "--admin-token-file", token}, "256 characters"},
		{"bad output", []string{"x", "-o", "yaml", "--url", "http://127.0.0.1:1", "--admin-token-file", token}, "--output"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			leafd(t, append([]string{"segment", "stop"}, test.args...)...).Failed(t, ExitUsage, test.says)
		})
	}
}

func TestWhichDaemonsAreAskedToStop(t *testing.T) {
	t.Parallel()
	const now = 1_000_000
	entries := []worker.Entry{
		{Node: "live", Address: "10.0.0.1:8080", State: worker.StateActive, Live: true, Owner: "x", Timestamp: 1},
		{Node: "not live, but running", Address: "10.0.0.2:8080", State: worker.StateActive, Owner: "x", Timestamp: now - 60_000},
		{Node: "long gone", Address: "10.0.0.3:8080", State: worker.StateActive, Owner: "x", Timestamp: now - 60_001},
		{Node: "a Java Leaf", Address: "10.0.0.4:8080", State: worker.StateActive, Timestamp: now},
		{Node: "released", Address: "10.0.0.5:8080", State: worker.StateReleased, Owner: "x", Timestamp: now},
		{Node: "damaged", State: worker.StateActive, Live: true, Owner: "x"},
		{Node: "of version 6", Address: "[::1]:8080", State: worker.StateActive, Live: true, Owner: "x"},
	}
	f := switchFlags{}
	require.Equal(t, []string{"http://10.0.0.1:8080", "http://10.0.0.2:8080", "http://[::1]:8080"}, f.urlsOf(entries, now))
	f = switchFlags{tls: true, adminPort: 9000}
	require.Equal(t, []string{"https://10.0.0.1:9000", "https://10.0.0.2:9000", "https://[::1]:9000"}, f.urlsOf(entries, now))
}

// All pages are asked for, and a server that gives the same one for ever is left.
func TestStopsOfAllPages(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.RequestURI)
		_, _ = io.WriteString(w, map[string]string{
			"":    `{"segments":[],"stopped":[{"tag":"a","since":5},{"tag":"b&c","reason":"x","since":5}],"next":"b&c"}`,
			"b&c": `{"segments":[],"stopped":[{"tag":"d","since":5}],"next":"b&c"}`,
		}[r.URL.Query().Get("after")])
	}))
	defer server.Close()
	d, err := (&remote{url: server.URL}).open()
	require.NoError(t, err)
	all, err := stoppedAt(t.Context(), []*remoteDaemon{d})
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.Equal(t, []string{"/api/segments?stopped=only&after=", "/api/segments?stopped=only&after=b%26c"}, asked)
}
