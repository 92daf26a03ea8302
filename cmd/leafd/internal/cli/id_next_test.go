package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/proctest"
)

// served starts a server that answers every request alike, and returns its URL
// and what the last request asked for.
func served(t *testing.T, status int, body string) (url string, asked func() *http.Request) {
	t.Helper()
	requests := make(chan *http.Request, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() *http.Request {
		select {
		case r := <-requests:
			return r
		default:
			require.Fail(t, "no request came")
			return nil
		}
	}
}

func TestIDNext(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		args       []string
		answer     string
		wantURI    string
		wantStdout string
	}{
		{"one", nil, `{"ids":["5"]}`, "/api/snowflake/get/leafd?n=1", "5\n"},
		{"several", []string{"-n", "3"}, `{"ids":["5","6","9223372036854775807"]}`, "/api/snowflake/get/leafd?n=3", "5\n6\n9223372036854775807\n"},
		{"tag", []string{"--tag", "leaf-segment-test"}, `{"ids":["5"]}`, "/api/segment/get/leaf-segment-test?n=1", "5\n"},
		{"tag with a slash and more", []string{"--tag", "a/b ?ä"}, `{"ids":["5"]}`, "/api/segment/get/a%2Fb%20%3F%C3%A4?n=1", "5\n"},
		{"for programs", []string{"-o", "json", "-n2"}, `{"ids":["5","6"]}`, "/api/snowflake/get/leafd?n=2", "{\n  \"ids\": [\n    \"5\",\n    \"6\"\n  ]\n}\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, slash := range []string{"", "/"} {
				url, asked := served(t, http.StatusOK, tc.answer)
				out := leafd(t, append([]string{"id", "next", "--url", url + slash}, tc.args...)...).OK(t)
				require.Equal(t, tc.wantStdout, out)
				request := asked()
				require.Equal(t, http.MethodGet, request.Method)
				require.Equal(t, tc.wantURI, request.RequestURI)
				require.Equal(t, "application/json", request.Header.Get("Accept"))
			}
		})
	}
}

// Without --url the daemon is asked where the settings say that it listens.
func TestDaemonOfTheSettings(t *testing.T) {
	t.Parallel()
	url, asked := served(t, 200, `{"ids":["5"]}`)
	address := strings.TrimPrefix(url, "http://")
	require.Equal(t, "5\n", leafd(t, "id", "next", "--listen", address).OK(t))
	require.Equal(t, "5\n", invocation{args: []string{"id", "next"}, env: map[string]string{"LEAFD_LISTEN": "127.0.0.1" + address[strings.LastIndexByte(address, ':'):]}}.run(t).OK(t))
	require.Equal(t, "/api/snowflake/get/leafd?n=1", asked().RequestURI)
	file := filepath.Join(t.TempDir(), "leafd.yaml")
	require.NoError(t, os.WriteFile(file, []byte("listen: "+address+"\n"), 0o600))
	require.Equal(t, "5\n", leafd(t, "id", "next", "--config", file).OK(t))
	silent := proctest.DeadAddress(t)
	leafd(t, "id", "next", "--config", file, "--url", "http://"+silent).Failed(t, ExitFailure, "no answer from http://"+silent, "connection refused", "is leafd serve running")
	leafd(t, "bench", "--duration", "10ms", "--listen", silent).Failed(t, ExitFailure, silent)
}

func TestIDNextIsRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		status int
		answer string
		says   []string
	}{
		{"as leafd does", 503, `{"code":"clock_backwards","message":"behind by 1s"}`, []string{"HTTP 503 Service Unavailable", "clock_backwards: behind by 1s"}},
		{"with what a terminal would obey", 400, `{"code":"bad_key","message":"\u001b[2J"}`, []string{"bad_key: ?[2J"}},
		{"by something else", 404, `<html>`, []string{"404 Not Found", "not as leafd does"}},
		{"with nothing", 500, ``, []string{"500 Internal Server Error"}},
		{"by a redirection", 302, ``, []string{"302 Found"}},
		{"with another's page", 200, `<html>`, []string{"not leafd's"}},
		{"with too few", 200, `{"ids":["1"]}`, []string{"gave 1 IDs instead of 2"}},
		{"with too many", 200, `{"ids":["1","2","3"]}`, []string{"gave 3 IDs instead of 2"}},
		{"with other JSON", 200, `{}`, []string{"gave 0 IDs instead of 2"}},
		{"with words", 200, `{"ids":["1","x"]}`, []string{`gave "x" for an ID`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			url, _ := served(t, tc.status, tc.answer)
			leafd(t, "id", "next", "-n", "2", "--url", url).Failed(t, ExitFailure, tc.says...)
		})
	}
}

func TestIDNextBrokenAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"ids":["1"]}`)
	}))
	t.Cleanup(server.Close)
	leafd(t, "id", "next", "--url", server.URL).Failed(t, ExitFailure, "broke off")
}

func TestIDNextUsage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args []string
		says string
	}{
		{"count 0", []string{"-n", "0"}, "--count is 0"},
		{"no number", []string{"-n", "x"}, "invalid argument"},
		{"empty tag", []string{"--tag="}, `--tag is ""`},
		{"other scheme", []string{"--url=ftp://localhost"}, "--url is"},
		{"query", []string{"--url=http://localhost/?a=b"}, "--url is"},
		{"password", []string{"--url=http://a:hunter2@localhost/"}, "user and password"},
		{"argument", []string{"5"}, `"5"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out := leafd(t, append([]string{"id", "next"}, tc.args...)...)
			out.Failed(t, ExitUsage, tc.says)
			require.NotContains(t, out.Stderr, "hunter2")
		})
	}
}
