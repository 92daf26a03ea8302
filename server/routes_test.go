package server

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/snowflake"
)

// A parameter that a path doesn't have is refused, and those that it has are named: a word that
// was mistyped would else be answered as if it were not there. The two paths of IDs take any, as the
// Java Leaf does, as long as neither n nor as is given.
func TestUnknownQueryParameters(t *testing.T) {
	r := start(t, func(c *Config) { c.AdminApart = true })
	ln := listenTCP(t)
	r.also(ln, conn.Admin)
	admin := r.at(ln)
	paths := strings.NewReplacer("{key}", "order", "{id}", "1", "{profile}", "goroutine")
	for _, op := range operations {
		path := paths.Replace(op.path)
		method, _, _ := strings.Cut(op.methods, " ")
		query := "nosuch=1"
		for _, p := range op.params {
			query += "&" + p.name + "="
		}
		on := admin
		if strings.Contains(path, "/get/") || strings.Contains(path, "/lend/") { // Public alone has IDs
			on = r
		}
		a := on.do(method, path+"?"+query, "", "Authorization: Bearer "+token)
		a.requireError(t, 400, "bad_query")
		for _, p := range op.params {
			require.Contains(t, a.body, p.name, path)
		}
	}
	require.Zero(t, r.used())
	require.Equal(t, "1", r.get(segmentPrefix+"order?nosuch=1&_=5").body)
	r.get("/decodeSnowflakeId/?snowflakeid=1").requireError(t, 400, "bad_query")
	require.Equal(t, 400, admin.do("HEAD", "/api/workers?page=2", "").status)
	require.Equal(t, 200, admin.get("/api/workers?limit=1&after=").status)
}

func TestDecode(t *testing.T) {
	r := start(t, func(c *Config) { c.Location = time.FixedZone("CST", 8*3600) })
	id, err := snowflake.DefaultLayout().Compose(snowflake.Parts{Time: 1577182350000, Worker: 1023, Sequence: 42})
	require.NoError(t, err)
	digits := quote(id)
	require.JSONEq(t, `{"id":`+digits+`,"timestamp":1577182350000,"time":"2019-12-24T10:12:30.000Z","worker":1023,"sequence":42,"layout":"41+10+12"}`,
		r.get("/api/snowflake/decode/"+strings.Trim(digits, `"`)).body)
	a := r.get("/decodeSnowflakeId?snowflakeId=" + strings.Trim(digits, `"`))
	require.JSONEq(t, `{"timestamp":"1577182350000(2019-12-24 18:12:30.000)","sequenceId":"42","workerId":"1023"}`, a.body)
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))

	for _, bad := range []string{"x", "-1", "+1", "1.5", "9223372036854775808", "%20", "%201", "1x"} {
		r.get("/api/snowflake/decode/"+bad).requireError(t, 400, "bad_id")
		a := r.get("/decodeSnowflakeId?snowflakeId=" + strings.ReplaceAll(bad, "+", "%2B"))
		require.Equal(t, 200, a.status, "as the Java Leaf")
		require.JSONEq(t, `{"errorMsg":"snowflake Id反解析发生异常!"}`, a.body)
	}
	require.Equal(t, 200, r.get("/decodeSnowflakeId/").status)
	r.get("/api/snowflake/decode/").requireError(t, 404, "not_found")

	layout, err := snowflake.ParseLayout("41+5+5+12", snowflake.DefaultEpoch)
	require.NoError(t, err)
	r.SetBackend(&views.Backend{Backend: ids.Backend{Layout: layout}})
	require.Contains(t, r.get("/api/snowflake/decode/"+strings.Trim(digits, `"`)).body, `"datacenter":31,"worker":31,"sequence":42`)
	require.Contains(t, r.get("/decodeSnowflakeId?snowflakeId="+strings.Trim(digits, `"`)).body, `"workerId":"1023"`, "the Java Leaf knows ten bits of worker")
}

func quote(id int64) string {
	b, _ := reply.Wide(id).MarshalJSON()
	return string(b)
}

func TestPages(t *testing.T) {
	r := start(t, nil)
	require.Contains(t, r.get("/").body, "/api/snowflake/get/{key}")
	const odd, oddText = "a\u202eb\u200bc", "x\x1b[2J\u0085\u2028y" // by SQL anything gets into the table
	r.table.mu.Lock()
	r.table.rows[odd] = segment.Row{Tag: odd, Step: 1, MaxID: 1, Description: oddText}
	r.table.mu.Unlock()
	for _, path := range []string{"/cache", "/db"} {
		a := r.get(path)
		require.Equal(t, 200, a.status)
		require.Equal(t, "text/html; charset=utf-8", a.header.Get("Content-Type"))
		require.Equal(t, "no-store", a.header.Get("Cache-Control"))
		require.Contains(t, a.body, "<td>order</td>")
		require.Contains(t, a.body, "<td>a/b</td>")
		require.NotContains(t, a.body, "<script>")
		require.Contains(t, a.body, "<td>a\ufffdb\ufffdc</td>")
		require.False(t, strings.ContainsFunc(strings.ReplaceAll(a.body, "\n", ""), segment.Hidden))
		requireGuarded(t, a)
	}
	require.Contains(t, r.get("/db").body, "&lt;script&gt;")
	require.Contains(t, r.get("/db").body, ">x\ufffd[2J\ufffd\ufffdy<")
	requireGuarded(t, r.get("/", "Accept: text/html"))
	r.table.fail(errors.New(secret))
	r.forgetLists() // else they serve for a second
	a := r.get("/db")
	a.requireError(t, 503, "segment_store")
	require.NotContains(t, a.body, "password")
	require.Contains(t, r.log.String(), "password", "this log is where the driver's error belongs")
}

// requireGuarded fails unless a is a page that no other shows inside of itself.
func requireGuarded(t *testing.T, a answer) {
	t.Helper()
	require.Equal(t, "text/html; charset=utf-8", a.header.Get("Content-Type"))
	for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
		require.Contains(t, a.header.Get("Content-Security-Policy"), part)
	}
	require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
	require.Equal(t, "no-referrer", a.header.Get("Referrer-Policy"))
}

func TestMetrics(t *testing.T) {
	r := start(t, nil)
	a := r.get("/metrics")
	require.True(t, strings.HasPrefix(a.header.Get("Content-Type"), "text/plain; version=0.0.4"), a.header.Get("Content-Type"))
	for _, metric := range []string{"go_goroutines ", "process_open_fds ", `version="1.2.3"`, "leafd_http_connections 1\n"} {
		require.Contains(t, a.body, metric)
	}
	cfg := testConfig(t.Output())
	cfg.Registry = prometheus.NewRegistry()
	cfg.Registry.MustRegister(collectors.NewGoCollector())
	_, err := New(cfg)
	require.NoError(t, err, "a registry may have the common collectors already")
	_, err = New(cfg)
	require.ErrorContains(t, err, "metrics", "but not a server's own")
	_, err = New(Config{})
	require.ErrorContains(t, err, "Base and Clock")
}

func TestAdminToken(t *testing.T) {
	r := start(t, nil)
	const body = `{"tag":"new","step":10}`
	for _, test := range []struct{ name, header string }{
		{"empty", "Authorization: Bearer "},
		{"wrong", "Authorization: Bearer not-the-token"},
		{"prefix", "Authorization: Bearer a-secret-toke"},
		{"another scheme", "Authorization: Basic " + token},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, request := range [][3]string{{"POST", "/api/segments", body}, {"PATCH", "/api/segments/order", `{"step":5}`}, {"DELETE", "/api/segments/order", ""}} {
				a := r.do(request[0], request[1], request[2], test.header)
				a.requireError(t, 401, "unauthorized")
				require.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
			}
		})
	}
	require.NotContains(t, r.log.String(), token)
	require.NotContains(t, r.log.String(), "not-the-token")
	require.Equal(t, 201, r.do("POST", "/api/segments", body, "Authorization: bearer  "+token).status)

	off := start(t, func(c *Config) { c.Live.AdminToken = nil })
	a := off.do("POST", "/api/segments", body, "Authorization: Bearer ")
	a.requireError(t, 401, "unauthorized")
	require.Contains(t, a.body, "--admin-token-file")
}

func rowsOf(t *testing.T, r *running) []segment.Row {
	t.Helper()
	rows, err := r.table.List()
	require.NoError(t, err)
	return rows
}

func TestChangesOfTags(t *testing.T) {
	r := start(t, nil)
	before := rowsOf(t, r)
	auth := "Authorization: Bearer " + token
	for _, test := range []struct {
		name, method, path, body string
		status                   int
		code                     string
	}{
		{"no body", "POST", "", "", 400, "bad_request"},
		{"unknown field", "POST", "", `{"tag":"x","step":1,"maxid":5}`, 400, "bad_request"},
		{"no tag", "POST", "", `{"step":1}`, 400, "bad_key"},
		{"a long tag", "POST", "", `{"tag":"` + strings.Repeat("x", 129) + `","step":1}`, 400, "bad_key"},
		{"a control in the tag", "POST", "", `{"tag":"a\nb","step":1}`, 400, "bad_key"},
		{"a turn of direction in the tag", "POST", "", "{\"tag\":\"a\u202eb\",\"step\":1}", 400, "bad_key"},
		{"two objects", "POST", "", `{"tag":"x","step":1}{}`, 400, "bad_request"},
		{"a tag of another type", "POST", "", `{"tag":7,"step":1}`, 400, "bad_request"},
		{"a fraction", "POST", "", `{"tag":"x","step":1.5}`, 400, "bad_request"},
		{"no step", "POST", "", `{"tag":"x"}`, 400, "bad_step"},
		{"negative max_id", "POST", "", `{"tag":"x","step":1,"max_id":-1}`, 400, "bad_step"},
		{"past the end", "POST", "", `{"tag":"x","step":10,"max_id":"9223372036854775800"}`, 400, "bad_step"},
		{"a long description", "POST", "", `{"tag":"x","step":1,"description":"` + strings.Repeat("说", 257) + `"}`, 400, "bad_request"},
		{"there already", "POST", "", `{"tag":"order","step":1}`, 409, "tag_exists"},
		{"nothing to change", "PATCH", "/order", `{}`, 400, "bad_request"},
		{"change of a tag that isn't", "PATCH", "/nothing", `{"step":5}`, 404, "unknown_key"},
		{"change of a bad key", "PATCH", "/%FF", `{"step":5}`, 400, "bad_key"},
		{"removal of a bad key", "DELETE", "/%zz", "", 400, "bad_key"},
		{"removal of a tag that isn't", "DELETE", "/nothing", "", 404, "unknown_key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := r.rawBody(t, test.method, "/api/segments"+test.path, test.body, auth)
			c.requireError(t, test.status, test.code)
			require.NotContains(t, c.body, "Go ")
			require.NotContains(t, c.body, "newTag")
		})
	}
	require.Equal(t, before, rowsOf(t, r), "nothing was changed")
	require.NotContains(t, r.log.String(), "by HTTP")

	a := r.do("POST", "/api/segments", `{"tag":"new","step":"10","max_id":9007199254740993,"description":"说明"}`, auth)
	require.Equal(t, 201, a.status)
	require.JSONEq(t, `{"tag":"new","step":"10","max_id":"9007199254740993","description":"说明"}`, a.body)
	require.Equal(t, segment.Row{Tag: "new", MaxID: 9007199254740993, Step: 10, Description: "说明"}, r.table.rows["new"])
	require.Equal(t, 201, r.do("POST", "/api/segments", `{"tag":"x/y","step":1}`, auth).status)
	require.Equal(t, int64(1), r.table.rows["x/y"].MaxID)
	require.Equal(t, 204, r.do("PATCH", "/api/segments/x%2Fy", `{"step":20,"description":""}`, auth).status)
	require.Equal(t, int64(20), r.table.rows["x/y"].Step)
	require.Equal(t, 204, r.do("DELETE", "/api/segments/new", "", auth).status)
	require.NotContains(t, r.table.rows, "new")
	require.Contains(t, r.get("/api/segments").body, `"tag":"x/y","table_step":"20"`)

	require.NotContains(t, r.log.String(), token)
}

// rawBody is do for a path that net/http would correct.
func (r *running) rawBody(t *testing.T, method, target, body string, header ...string) answer {
	t.Helper()
	if strings.Contains(target, "%") {
		return r.rawDo(t, method, target, header...)
	}
	return r.do(method, target, body, header...)
}
