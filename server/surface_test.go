package server

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids"
)

// also serves r on ln too.
func (r *running) also(ln net.Listener, surface conn.Surface) {
	r.t.Helper()
	served := make(chan error, 1)
	go func() { served <- r.Serve(ln, surface) }()
	r.t.Cleanup(func() { // before that of start, so it ends what start began
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(r.t, r.Shutdown(ctx))
		require.NoError(r.t, <-served)
	})
}

// at returns r as it is asked at another listener.
func (r *running) at(ln net.Listener) *running {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, ln.Addr().Network(), ln.Addr().String())
	}}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &running{t: r.t, last: r.last, Server: r.Server, addr: "localhost", log: r.log, client: &http.Client{Transport: transport}, table: r.table, flake: r.flake}
}

func listenTCP(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return ln
}

func listenUnix(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	return ln
}

// startApart serves with an admin surface, and returns both.
func startApart(t *testing.T, change func(*Config)) (public, admin *running) {
	t.Helper()
	public = start(t, func(c *Config) {
		c.AdminApart = true
		if change != nil {
			change(c)
		}
	})
	ln := listenTCP(t)
	public.also(ln, conn.Admin)
	return public, public.at(ln)
}

const bearer = "Authorization: Bearer " + token

// Every path, on a server alone, and on the two surfaces: what is where. A path
// that isn't in this table is on none of them.
func TestSurfaces(t *testing.T) {
	alone := start(t, nil)
	public, admin := startApart(t, nil)
	for _, test := range []struct {
		method, path, body     string
		alone, onPublic, onAdm int
	}{
		{"GET", "/api/snowflake/get/x", "", 200, 200, 404},
		{"GET", "/api/segment/get/order", "", 200, 200, 404},
		{"HEAD", "/api/snowflake/get/x", "", 200, 200, 404},
		{"GET", "/api/snowflake/decode/1", "", 200, 200, 200},
		{"GET", "/decodeSnowflakeId?snowflakeId=1", "", 200, 200, 200},
		{"GET", "/api/clock", "", 200, 200, 200},
		{"GET", "/api/worker", "", 200, 200, 200},
		{"GET", "/api/workers", "", 200, 404, 200},
		{"GET", "/api/segments", "", 200, 404, 200},
		{"GET", "/", "", 200, 200, 200},
		{"GET", "/cache", "", 200, 404, 200},
		{"GET", "/db", "", 200, 404, 200},
		{"GET", "/healthz", "", 200, 200, 200},
		{"GET", "/readyz", "", 200, 200, 200},
		{"GET", "/metrics", "", 200, 404, 200},
		{"POST", "/api/segments", `{"tag":"new","step":5}`, 201, 404, 201},
		{"PATCH", "/api/segments/order", `{"step":7}`, 204, 404, 204},
		{"DELETE", "/api/segments/order", "", 204, 404, 204},
		{"GET", "/api/overview", "", 200, 404, 200},
		{"GET", "/api/history", "", 200, 404, 200},
		{"GET", "/api/cluster", "", 200, 404, 200},
		{"GET", "/api/summary", "", 200, 200, 200},
		{"GET", "/cache/?tag=o", "", 200, 404, 200},
		{"GET", "/debug/pprof/heap", "", 404, 404, 200},
		{"GET", "/debug/pprof/profile?seconds=1", "", 404, 404, 200},
		{"GET", "/nothing", "", 404, 404, 404},
	} {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			for _, at := range []struct {
				name   string
				r      *running
				status int
			}{{"alone", alone, test.alone}, {"public", public, test.onPublic}, {"admin", admin, test.onAdm}} {
				// An order on the public surface is no order on the admin one.
				a := at.r.do(test.method, test.path, test.body, bearer)
				require.Equal(t, at.status, a.status, "%s: %s", at.name, a.body)
				if at.status == 404 && test.method != http.MethodHead {
					a.requireError(t, 404, "not_found")
				}
				if strings.HasPrefix(test.path, "/debug/") {
					require.Equal(t, "no-store", a.header.Get("Cache-Control"))
				}
			}
		})
	}
	require.Zero(t, strings.Count(public.log.String(), "panicked"))
}

// However a client spells the path, no spelling of it reaches the other surface.
func TestSurfacesHoldForEverySpelling(t *testing.T) {
	public, admin := startApart(t, nil)
	for _, target := range []string{"/metrics", "//metrics", "/./metrics", "/x/../metrics", "/%6detrics", "http://x/metrics", "/debug/pprof/heap", "/debug//pprof/heap", "/debug/pprof/../pprof/heap"} {
		c := public.dial()
		send(t, c, "GET "+target+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+token+"\r\n\r\n")
		a := next(t, newReader(c))
		require.Equal(t, 404, a.status, "%s: %s", target, a.body)
	}
	before := public.used()
	for _, path := range []string{"/api/snowflake/get/x", "//api/snowflake/get/x", "/api/./snowflake/get/x", "/api/segment/get/order?n=5"} {
		require.Equal(t, 404, admin.get(path).status, path)
	}
	require.Equal(t, before, public.used())
}

func TestProfilesNeedTheToken(t *testing.T) {
	public, admin := startApart(t, nil)
	for _, path := range []string{"/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=1", "/debug/pprof/symbol", "/debug/pprof/x"} {
		admin.get(path).requireError(t, 401, "unauthorized")
		admin.get(path, bearer+"x").requireError(t, 401, "unauthorized")
	}
	require.Contains(t, public.log.String(), `"audit":"refused"`)
	for _, seconds := range []string{"11", "300", "0", "-1", "x", "", "1&seconds=300", "300;x", "1e9"} {
		for _, path := range []string{"profile", "trace", "heap"} {
			admin.get("/debug/pprof/"+path+"?seconds="+seconds, bearer).requireError(t, 400, "bad_request")
		}
	}
	public.SetLive(ids.Live{})
	admin.get("/debug/pprof/heap", bearer).requireError(t, 404, "not_found")
	admin.do("POST", "/api/segments", `{"tag":"new","step":5}`).requireError(t, 401, "unauthorized")
}
