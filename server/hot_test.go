package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIDs(t *testing.T) {
	r := start(t, nil)
	a := r.get("/api/snowflake/get/order")
	require.Equal(t, answer{200, a.header, "1152921504606846977", false}, a)
	require.Equal(t, "text/plain; charset=utf-8", a.header.Get("Content-Type"))
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	require.Empty(t, a.header.Get("Server"))

	require.Equal(t, "1", r.get("/api/segment/get/order").body)
	require.Equal(t, "2\n3\n4\n", r.get("/api/segment/get/order?n=3").body)
	require.Equal(t, "5\n", r.get("/api/segment/get/order?n=1").body)
	require.Equal(t, "6", r.get("/api/segment/get/order?other=1&x").body)
	require.Equal(t, "500", r.get("/api/segment/get/a%2Fb").body)
	require.Equal(t, "501", r.get("/api/segment/get/a%2fb").body)
	for i, path := range []string{"//api/segment/get/a%2fb", "/api///segment//get//a%2fb//", "/api/segment/get//a%2fb?x=//"} {
		resp, err := r.client.Get("http://" + r.addr + path) // the document has such paths but once
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, strconv.Itoa(502+i), string(body), "repeated slashes are one")
	}
	r.get("/api/segment//get/a//b").requireError(t, 404, "not_found")
	for accept, want := range map[string]string{"application/json;q=0": "text/plain; charset=utf-8", "application/json ; Q=0.000, text/plain": "text/plain; charset=utf-8", "application/json;q=0.1": "application/json", "text/*;q=0, application/json;v=1": "application/json"} {
		require.Equal(t, want, r.get("/api/snowflake/get/x", "Accept: "+accept).header.Get("Content-Type"), accept)
	}

	for _, path := range []string{"/api/segment/get/order", "/api/snowflake/get/anything"} {
		a = r.get(path, "Accept: application/json")
		require.Equal(t, "application/json", a.header.Get("Content-Type"))
		require.Equal(t, "no-store", a.header.Get("Cache-Control"))
		var id int64 // as RestTemplate's getForObject(…, Long.class) reads it
		require.NoError(t, json.Unmarshal([]byte(a.body), &id))
		require.Positive(t, id)
		require.Equal(t, 200, r.do("POST", path+"/", "ignored=1", "Content-Type: application/x-www-form-urlencoded").status)
		var ids struct{ IDs []string }
		a = r.get(path+"?n=1", "Accept: application/json")
		require.NoError(t, json.Unmarshal([]byte(a.body), &ids))
		require.Len(t, ids.IDs, 1)
		a = r.get(path+"/?n=1000", "Accept: application/json")
		require.NoError(t, json.Unmarshal([]byte(a.body), &ids))
		require.Len(t, ids.IDs, 1000)
		require.Len(t, unique(t, ids.IDs), 1000)
	}
	for _, n := range []int{2, 500, 10_000} {
		a = r.get("/api/snowflake/get/x?n=" + strconv.Itoa(n))
		require.Len(t, unique(t, strings.Split(strings.TrimSuffix(a.body, "\n"), "\n")), n)
		require.True(t, strings.HasSuffix(a.body, "\n"))
	}
}

func TestRanges(t *testing.T) {
	r := start(t, nil)
	a := r.get("/api/segment/get/order?as=ranges&n=100000")
	require.Equal(t, answer{200, a.header, "1-50000\n50001-100000\n", false}, a)
	require.Equal(t, "text/plain; charset=utf-8", a.header.Get("Content-Type"))
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	require.Equal(t, "100001-100001\n", r.get("/api/segment/get/order?n=1&as=ranges").body)
	require.JSONEq(t, `{"ranges":[{"first":"100002","last":"100501"},{"first":"100502","last":"101001"}]}`, r.get("/api/segment/get/order?n=1000&as=ranges", "Accept: application/json").body)
	require.Equal(t, "101002", r.get("/api/segment/get/order").body)
	r.get("/api/segment/get/order?as=ranges&n=100001").requireError(t, 400, "bad_count")
	r.get("/api/segment/get/order?n=10001").requireError(t, 400, "bad_count")
	r.get("/api/segment/get/none?as=ranges&n=5").requireError(t, 404, "unknown_key")

	first := r.flake.last.Load() + 1
	require.Equal(t, fmt.Sprintf("%d-%d\n%d-%d\n%d-%d\n", first, first+3999, first+4001, first+8000, first+8002, first+10001), r.get("/api/snowflake/get/x?as=ranges&n=10000").body)
	r.get("/api/snowflake/get/x?as=ranges&n=10001").requireError(t, 400, "bad_count")
	require.Equal(t, 200, r.do("HEAD", "/api/snowflake/get/x?as=ranges&n=10000", "").status)
	require.Equal(t, 101_002, r.table.calls)
	require.EqualValues(t, 10_000, r.flake.calls.Load())
	require.Equal(t, "10000", r.gauge(`leafd_ids_issued_total{mode="snowflake"}`))
	require.Equal(t, "101002", r.gauge(`leafd_ids_issued_total{mode="segment"}`))
	require.Equal(t, "1", r.gauge(`leafd_http_request_duration_seconds_count{batch="yes",mode="snowflake"}`))
	require.Equal(t, "0", r.gauge(`leafd_http_inflight{mode="segment"}`))
}

// unique returns the set of ids, which must be different numbers.
func unique(t *testing.T, ids []string) map[int64]bool {
	t.Helper()
	seen := make(map[int64]bool)
	for _, s := range ids {
		id, err := strconv.ParseInt(s, 10, 64)
		require.NoError(t, err)
		require.False(t, seen[id], s)
		seen[id] = true
	}
	return seen
}

func TestBadInputConsumesNothing(t *testing.T) {
	r := start(t, func(c *Config) { c.Live.MaxBatch, c.Live.MaxRange = 50, 50 })
	long := strings.Repeat("k", 129)
	for _, test := range []struct {
		name, rest string
		status     int
		code       string
	}{
		{"zero", "order?n=0", 400, "bad_count"},
		{"negative", "order?n=-1", 400, "bad_count"},
		{"beyond the limit", "order?n=51", 400, "bad_count"},
		{"word", "order?n=ten", 400, "bad_count"},
		{"ranges beyond the limit", "order?as=ranges&n=51", 400, "bad_count"},
		{"as what", "order?as=range&n=1", 400, "bad_query"},
		{"unknown beside n", "order?n=1&count=2", 400, "bad_query"},
		{"twice", "order?n=1&n=1", 400, "bad_count"},
		{"no key", "", 400, "bad_key"},
		{"long key", long, 400, "bad_key"},
		{"bad escape", "%zz", 400, "bad_key"},
		{"control", "a%0Ab", 400, "bad_key"},
		{"not UTF-8", "%FF", 400, "bad_key"},
		{"another segment", "a/b", 404, "not_found"},
		{"nothing but a slash", "/", 400, "bad_key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, prefix := range []string{snowflakePrefix, segmentPrefix} {
				for _, method := range []string{"GET", "HEAD"} {
					a := r.rawDo(t, method, prefix+test.rest)
					require.Equal(t, test.status, a.status)
					if method == "GET" {
						a.requireError(t, test.status, test.code)
					}
					if test.code == "bad_count" && method == "GET" {
						require.Contains(t, a.body, "50")
					}
				}
			}
			require.Zero(t, r.used())
		})
	}
	r.get("/api/segment/get/nothing").requireError(t, 404, "unknown_key")
	r.get("/api/segment/get/nothing?n=5").requireError(t, 404, "unknown_key")
	require.Zero(t, r.used())
}

// rawDo sends a request with a target that net/http might correct.
func (r *running) rawDo(t *testing.T, method, target string, header ...string) answer {
	t.Helper()
	c := r.dial()
	send(t, c, method+" "+target+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+strings.Join(append(header, ""), "\r\n")+"\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method, RequestURI: target})
	require.NoError(t, err)
	return readAnswer(t, resp)
}

func TestKeysAndTargets(t *testing.T) {
	r := start(t, nil)
	for _, test := range []struct{ name, target, want string }{
		{"longest", segmentPrefix + strings.Repeat("k", 128), "unknown_key"},
		{"bytes beyond ASCII", segmentPrefix + "\xe8\xae\xa2", "unknown_key"},
		{"fragment", segmentPrefix + "order#n=7", "1"},
		{"absolute form", "http://somewhere.example" + segmentPrefix + "order?n=2", "2\n3\n"},
		{"another case", "/API/segment/get/order", "not_found"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := r.rawDo(t, "GET", test.target)
			if a.status == 200 {
				require.Equal(t, test.want, a.body)
			} else {
				a.requireError(t, 404, test.want)
			}
		})
	}
	// A snowflake key needs no registration.
	require.Equal(t, 200, r.rawDo(t, "GET", snowflakePrefix+"%E8%AE%A2%E5%8D%95").status)
}

func TestOtherMethods(t *testing.T) {
	r := start(t, nil)
	for _, path := range []string{"/api/snowflake/get/order", "/api/segment/get/order", "/healthz", "/api/snowflake/decode/1"} {
		allowed := "GET, HEAD, OPTIONS"
		if strings.Contains(path, "/get/") {
			allowed += ", POST"
		} else {
			r.do("POST", path, "").requireError(t, 405, "method_not_allowed")
		}
		for _, method := range []string{"PUT", "PATCH", "DELETE", "TRACE", "BREW"} {
			a := r.do(method, path, "")
			a.requireError(t, 405, "method_not_allowed")
			require.Equal(t, allowed, a.header.Get("Allow"), method+path)
		}
		a := r.do("OPTIONS", path, "")
		require.Equal(t, 204, a.status)
		require.Equal(t, allowed, a.header.Get("Allow"))
		require.Empty(t, a.body)
	}
	a := r.do("GET", "/api/segments/order", "")
	a.requireError(t, 405, "method_not_allowed")
	require.Equal(t, "DELETE, OPTIONS, PATCH", a.header.Get("Allow"))
	r.do("OPTIONS", "/api/segment/get/a/b", "").requireError(t, 404, "not_found")
	require.Zero(t, r.used())
}

func TestHeadConsumesNothing(t *testing.T) {
	r := start(t, nil)
	for _, path := range []string{"/api/snowflake/get/order", "/api/segment/get/order?n=1000"} {
		a := r.do("HEAD", path, "")
		require.Equal(t, 200, a.status)
		require.Equal(t, "text/plain; charset=utf-8", a.header.Get("Content-Type"))
		require.Equal(t, "no-store", a.header.Get("Cache-Control"))
		a = r.do("HEAD", path, "", "Accept: application/json")
		require.Equal(t, "application/json", a.header.Get("Content-Type"))
	}
	require.Equal(t, 404, r.do("HEAD", "/api/segment/get/nothing", "").status)
	require.Equal(t, 400, r.do("HEAD", "/api/segment/get/order?n=0", "").status)
	require.Zero(t, r.used())
	for _, path := range []string{"/", "/metrics", "/api/workers", "/db", "/api/snowflake/decode/1"} {
		a := r.do("HEAD", path, "")
		require.Equal(t, 200, a.status, path)
		require.NotEmpty(t, a.header.Get("Content-Type"), path)
		require.NotEqual(t, "0", a.header.Get("Content-Length"), path)
	}
}
