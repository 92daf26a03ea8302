package main

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/certtest"
	"github.com/leafd/leafd/test/clitest"
)

// request asks a daemon at any listener once.
func request(t *testing.T, conf *tls.Config, url string) (answer, error) {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: conf}}
	res, err := client.Get(url)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return answer{status: res.StatusCode, body: string(body), header: res.Header}, nil
}

// Public and admin surface, TCP and unix, on a real daemon.
func TestListenersOfADaemon(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	public, admin := filepath.Join(m.dir, "leafd.sock"), filepath.Join(m.dir, "admin.sock")
	token := clitest.WriteFile(t, "token", clitest.AdminToken+"\n")
	m.socket = public
	args := []string{"--admin-listen", "unix:" + admin, "--admin-token-file", token, "--log-level", "error", tune("SegmentWait", "10s")}
	l := m.ready(args...)

	for path, status := range map[string]int{"/api/snowflake/get/x": 200, "/metrics": 404, "/debug/pprof/heap": 404, "/api/segments": 404, "/api/worker": 200} {
		require.Equal(t, status, l.mustGet(path).status, path)
	}
	require.Equal(t, 404, l.send("POST", "/api/segments", clitest.AdminToken, `{"tag":"x","step":1}`).status)
	require.Len(t, strings.Fields(leafd(t, "id", "next", "-n", "5", "--url", "unix:"+public).OK(t)), 5)
	leafd(t, "id", "next", "--url", "unix:"+admin).Failed(t, cli.ExitFailure, "not_found")
	leafd(t, "id", "next", "--url", "unix:"+admin+"2").Failed(t, cli.ExitFailure, "no answer from unix:"+admin+"2", "no such file")
	for path, mode := range map[string]os.FileMode{public: 0o660, admin: 0o660} {
		info, err := os.Lstat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm())
	}

	change := func(method, path, token, body string) answer {
		t.Helper()
		a, err := sendBy(t, overUnix(admin), method, "http://localhost"+path, token, body)
		require.NoError(t, err)
		return a
	}
	const create = `{"tag":"a/b","max_id":"1000","step":"500","description":"d"}`
	require.Equal(t, 201, change("POST", "/api/segments", clitest.AdminToken, create).status)
	require.Equal(t, "1000\n", leafd(t, "id", "next", "--tag", "a/b", "--url", l.url).OK(t), "served at once")
	require.Equal(t, 204, change("PATCH", "/api/segments/a%2Fb", clitest.AdminToken, `{"step":"600"}`).status)
	require.Equal(t, "tag_exists", change("POST", "/api/segments", clitest.AdminToken, create).code())
	require.Equal(t, 204, change("DELETE", "/api/segments/a%2Fb", clitest.AdminToken, "").status)
	require.Equal(t, "unknown_key", change("DELETE", "/api/segments/none", clitest.AdminToken, "").code())
	require.Equal(t, "unauthorized", change("POST", "/api/segments", "another-token-of-16-bytes", create).code())
	require.Equal(t, "not_found", l.send("POST", "/api/segments", clitest.AdminToken, create).code())
	for action, parts := range map[string][]string{
		"create": {`"after":{"max_id":1000,"step":500,"description":"d"}`},
		"update": {`"before":{"max_id":1500,"step":500,"description":"d"}`, `"after":{"max_id":1500,"step":600,"description":"d"}`},
		"delete": {`"before":{"max_id":1500,"step":600,"description":"d"}`},
	} {
		l.awaitLog(append(parts, `"level":"info"`, `"audit":"`+action+`"`, `"tag":"a/b"`, `"surface":"admin"`, `"uid":`)...)
	}

	// A second daemon neither gets the sockets nor disturbs them.
	other := newMachine(t)
	other.socket = public
	second := other.start()
	require.Equal(t, cli.ExitFailure, second.ExitCode())
	require.Contains(t, second.Log(), "another process has this unix socket")
	require.Len(t, strings.Fields(leafd(t, "id", "next", "--url", "unix:"+public).OK(t)), 1)
	require.NoDirExists(t, other.dataDir(), "nothing was touched")

	l.kill()
	require.FileExists(t, public)
	l = m.ready(args...)
	require.Len(t, strings.Fields(leafd(t, "id", "next", "--url", "unix:"+public).OK(t)), 1)
	idle, err := net.Dial("unix", admin)
	require.NoError(t, err)
	defer func() { _ = idle.Close() }()
	require.Equal(t, cli.ExitOK, l.stop())
	require.NoFileExists(t, public)
	require.NoFileExists(t, admin)
}

// TLS on both TCP surfaces, with certificates of clients; new
// files are taken without a restart, and broken ones aren't.
func TestTLSOfADaemon(t *testing.T) {
	t.Parallel()
	ca, next := certtest.New(t, "ca"), certtest.New(t, "next")
	m := newMachine(t)
	write := func(p certtest.Pair) (cert, key string) {
		return certtest.Write(t, m.dir, "tls.crt", p.Cert), certtest.Write(t, m.dir, "tls.key", p.Key)
	}
	cert, key := write(ca.Issue(t, "one"))
	roots := certtest.Write(t, m.dir, "ca.crt", ca.PEM)
	clients := certtest.New(t, "clients")
	alice := clients.Issue(t, "alice")
	aliceCert, aliceKey := certtest.Write(t, m.dir, "alice.crt", alice.Cert), certtest.Write(t, m.dir, "alice.key", alice.Key)
	token := clitest.WriteFile(t, "token", clitest.AdminToken)
	adminAddr := freeAddress(t)
	m.socket = filepath.Join(m.dir, "s")
	l := m.start("--tls-cert", cert, "--tls-key", key, "--tls-client-ca", certtest.Write(t, m.dir, "clients.crt", clients.PEM),
		"--admin-listen", adminAddr, "--admin-token-file", token)
	l.awaitLog("issuing snowflake IDs")
	url := "https://" + l.addr

	_, err := request(t, ca.Client(t), url+"/api/snowflake/get/x")
	require.ErrorContains(t, err, "certificate required")
	a, err := request(t, ca.Client(t, alice), url+"/api/snowflake/get/x")
	require.NoError(t, err)
	require.Equal(t, 200, a.status)
	plain := l.mustGet("/api/snowflake/get/x")
	require.Equal(t, "tls_required", plain.code())
	require.Len(t, strings.Fields(leafd(t, "id", "next", "-n3", "--url", url, "--ca-file", roots, "--cert-file", aliceCert, "--key-file", aliceKey).OK(t)), 3)
	leafd(t, "id", "next", "--url", url).Failed(t, cli.ExitFailure, "unknown authority", "--ca-file")
	leafd(t, "id", "next", "--url", l.url).Failed(t, cli.ExitFailure, "tls_required")

	create := func(certificates ...tls.Certificate) (answer, error) {
		conf := ca.Client(t)
		conf.Certificates = certificates
		return sendBy(t, &http.Transport{TLSClientConfig: conf}, "POST", "https://"+adminAddr+"/api/segments", clitest.AdminToken, `{"tag":"secure","step":"500"}`)
	}
	_, err = create()
	require.ErrorContains(t, err, "certificate required")
	pair, err := tls.LoadX509KeyPair(aliceCert, aliceKey)
	require.NoError(t, err)
	a, err = create(pair)
	require.NoError(t, err)
	require.Equal(t, 201, a.status, a.body)
	l.awaitLog(`"audit":"create"`, `"tag":"secure"`, `"certificate":"CN=alice"`)

	certtest.Write(t, m.dir, "tls.key", next.Issue(t, "two").Key) // fits no certificate
	l.awaitLog(`"alarm":"certificate"`, `"level":"error"`, "tls.crt")
	a, err = request(t, ca.Client(t, alice), url+"/healthz")
	require.NoError(t, err)
	require.Equal(t, 200, a.status)
	write(next.Issue(t, "two"))
	l.awaitLog("are in use", `"subject":"CN=two"`)
	a, err = request(t, next.Client(t, alice), url+"/readyz")
	require.NoError(t, err)
	require.Equal(t, 200, a.status)
	_, err = request(t, ca.Client(t, alice), url+"/readyz")
	require.ErrorContains(t, err, "unknown authority")
	require.Equal(t, 1, l.alarms("certificate"), "the new one does not end soon")

	require.Equal(t, cli.ExitOK, l.stop())
}
