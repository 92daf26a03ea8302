package server

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/test/certtest"
)

// audited returns the lines of the audit log, without the client's port.
func (r *running) audited() []map[string]any {
	r.t.Helper()
	var list []map[string]any
	for line := range strings.Lines(r.log.String()) {
		var entry map[string]any
		require.NoError(r.t, json.Unmarshal([]byte(line), &entry), line)
		if entry["audit"] != nil {
			list = append(list, entry)
		}
	}
	return list
}

func TestEveryChangeIsAudited(t *testing.T) {
	public, admin := startApart(t, nil)
	require.Equal(t, 201, admin.do("POST", "/api/segments", `{"tag":"new","step":10,"max_id":5,"description":"d"}`, bearer).status)
	changed := admin.do("PATCH", "/api/segments/new", `{"step":20,"description":"e"}`, bearer, "Accept: application/json")
	require.Equal(t, 200, changed.status)
	require.JSONEq(t, `{"tag":"new","max_id":"5","step":"20","description":"e"}`, changed.body)
	gone := admin.do("DELETE", "/api/segments/new", "", bearer, "Accept: application/json")
	require.Equal(t, 200, gone.status)
	require.JSONEq(t, changed.body, gone.body)
	for _, refused := range []int{
		admin.do("POST", "/api/segments", `{"tag":"order","step":10}`, bearer).status,
		admin.do("PATCH", "/api/segments/missing", `{"step":10}`, bearer).status,
		admin.do("DELETE", "/api/segments/missing", "", bearer).status,
		admin.do("PATCH", "/api/segments/order", `{"step":0}`, bearer).status,
	} {
		require.GreaterOrEqual(t, refused, 400)
	}

	list := public.audited()
	require.Len(t, list, 3, "what was not changed is no change")
	row := func(step float64, description string) map[string]any {
		return map[string]any{"max_id": 5.0, "step": step, "description": description}
	}
	for i, want := range []struct {
		action        string
		before, after any
	}{
		{"create", nil, row(10, "d")},
		{"update", row(10, "d"), row(20, "e")},
		{"delete", row(20, "e"), nil},
	} {
		got := list[i]
		require.Regexp(t, `^127\.0\.0\.1:\d+$`, got["client"])
		delete(got, "client")
		all := map[string]any{"level": "info", "audit": want.action, "tag": "new", "surface": "admin", "who": "admin token", "message": "changed by HTTP"}
		if want.before != nil {
			all["before"] = want.before
		}
		if want.after != nil {
			all["after"] = want.after
		}
		require.Equal(t, all, got)
	}
}

// dropping is a log with a level that a hook sets, as the daemon's is.
type dropping struct{ least zerolog.Level }

func (d dropping) Run(e *zerolog.Event, level zerolog.Level, _ string) {
	if level < d.least {
		e.Discard()
	}
}

func TestNoLevelSilencesTheAudit(t *testing.T) {
	for name, quiet := range map[string]func(zerolog.Logger) zerolog.Logger{
		"by level": func(l zerolog.Logger) zerolog.Logger { return l.Level(zerolog.ErrorLevel) },
		"by hook":  func(l zerolog.Logger) zerolog.Logger { return l.Hook(dropping{zerolog.ErrorLevel}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, func(c *Config) { c.Log = quiet(c.Log) })
			require.Equal(t, 201, r.do("POST", "/api/segments", `{"tag":"new","step":10}`, bearer).status)
			require.Len(t, r.audited(), 1)
			require.Equal(t, "info", r.audited()[0]["level"])
		})
	}
}

func TestRefusedAttemptsAreSampled(t *testing.T) {
	r := start(t, nil)
	for range 50 {
		r.do("DELETE", "/api/segments/order", "", "Authorization: Bearer guess").requireError(t, 401, "unauthorized")
	}
	list := r.audited()
	require.Len(t, list, 5)
	require.Equal(t, "warn", list[0]["level"])
	require.Equal(t, "refused", list[0]["audit"])
	require.Equal(t, "DELETE", list[0]["method"])
	require.Equal(t, "/api/segments/order", list[0]["path"])
	require.NotContains(t, r.log.String(), "guess")
}

// The client that made a change: the process behind a unix socket, or a certificate.
func TestAuditNamesTheClient(t *testing.T) {
	ca := certtest.New(t, "ca")
	dir := t.TempDir()
	files := writePair(t, dir, ca.Issue(t, "leafd"))
	files.ClientCA = certtest.Write(t, dir, "ca.crt", ca.PEM)
	certificates, err := conn.OpenCertificates(files, 0, nil)
	require.NoError(t, err)
	r := start(t, func(c *Config) { c.AdminApart = true })
	unix, secure := listenUnix(t), conn.Secured(listenTCP(t), certificates.Server(true))
	r.also(unix, conn.Admin)
	r.also(secure, conn.Admin)

	require.Equal(t, 204, r.at(unix).do("PATCH", "/api/segments/order", `{"step":10}`, bearer).status)
	alice := r.overTLS(secure, ca.Client(t, ca.Issue(t, "alice")))
	require.Equal(t, 204, alice.do("PATCH", "/api/segments/order", `{"step":11}`, bearer).status)
	list := r.audited()
	require.Len(t, list, 2)
	require.EqualValues(t, os.Getuid(), list[0]["uid"])
	require.EqualValues(t, os.Getpid(), list[0]["pid"])
	require.NotContains(t, list[0], "certificate")
	require.Equal(t, "CN=alice", list[1]["certificate"])
	require.Regexp(t, `^\d+$`, list[1]["serial"])
	require.NotContains(t, list[1], "uid")

	// A certificate is no token.
	alice.do("PATCH", "/api/segments/order", `{"step":12}`).requireError(t, 401, "unauthorized")
	require.Equal(t, "CN=alice", r.audited()[2]["certificate"])
	r.SetLive(ids.Live{})
	alice.do("PATCH", "/api/segments/order", `{"step":12}`, bearer).requireError(t, 401, "unauthorized")
	require.Equal(t, int64(11), r.table.rows["order"].Step)
}
