package server

import (
	"crypto/sha256"
	"testing"

	"github.com/leafd/leafd/server/ids"

	"github.com/stretchr/testify/require"
)

const (
	shopToken = "the-token-of-the-shop"
	opsToken  = "the-token-of-operators"
)

// withCallers has two callers, beside the admin token: one of IDs, and an admin.
func withCallers() ids.Live {
	return ids.Live{AdminToken: []byte(token), Callers: []ids.Caller{
		{Name: "shop", SHA256: sha256.Sum256([]byte(shopToken)), IDs: []string{"order", "pay*"}},
		{Name: "ops", SHA256: sha256.Sum256([]byte(opsToken)), IDs: []string{"*"}, Admin: true},
	}}
}

// No ID without the token of a caller that may have it, over HTTP.
func TestCallersOfIDs(t *testing.T) {
	r := start(t, func(c *Config) { c.Live = withCallers() })
	const shop, ops = "Authorization: Bearer " + shopToken, "Authorization: bearer  " + opsToken
	for _, test := range []struct {
		path, header string
		status       int
	}{
		{"order", "X: x", 401},
		{"order", shop + "x", 401},
		{"order", "Authorization: Basic " + shopToken, 401},
		{"order", bearer, 401}, // the admin token is for changes
		{"order", shop, 200},
		{"orders", shop, 401},
		{"payment", shop, 200},
		{"pa", shop, 401},
		{"p%61yment", shop, 200},
		{"anything", ops, 200},
	} {
		used := r.used()
		a := r.get(snowflakePrefix+test.path, test.header)
		require.Equal(t, test.status, a.status, "%s %s", test.path, test.header)
		if test.status == 401 {
			a.requireError(t, 401, "unauthorized")
			require.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
			require.Equal(t, used, r.used())
		}
	}
	require.Equal(t, 401, r.do("HEAD", segmentPrefix+"order", "").status)
	require.Equal(t, 200, r.do("POST", segmentPrefix+"order", "", shop).status)
	for _, open := range []string{"/healthz", "/readyz", "/api/clock", "/api/snowflake/decode/1", "/api/segments"} {
		require.Equal(t, 200, r.get(open).status, open)
	}
	scrape := r.get("/metrics").body
	require.Contains(t, scrape, `leafd_caller_requests_total{caller="shop"} 4`)
	require.Contains(t, scrape, `leafd_caller_requests_total{caller="ops"} 1`)
	require.NotContains(t, scrape+r.log.String(), "the-token")

	live := withCallers()
	live.Callers[0].SHA256 = sha256.Sum256([]byte("a-new-token"))
	live.Callers[1].Name = "operators"
	r.SetLive(live)
	r.get(segmentPrefix+"order", shop).requireError(t, 401, "unauthorized")
	require.Equal(t, 200, r.get(segmentPrefix+"order", "Authorization: Bearer a-new-token").status)
	scrape = r.get("/metrics").body
	require.Regexp(t, `leafd_caller_requests_total\{caller="shop"\} [45]\n`, scrape)
	require.NotContains(t, scrape, `caller="ops"`)
	r.SetLive(ids.Live{})
	require.Equal(t, 200, r.get(segmentPrefix+"order").status, "without callers all may")
}

// An admin among the callers changes tags, with or without an admin token, and is named in the log.
func TestCallersThatAreAdmins(t *testing.T) {
	r := start(t, func(c *Config) { c.Live = withCallers() })
	r.do("PATCH", "/api/segments/order", `{"step":5}`, "Authorization: Bearer "+shopToken).requireError(t, 401, "unauthorized")
	require.Equal(t, 204, r.do("PATCH", "/api/segments/order", `{"step":6}`, "Authorization: Bearer "+opsToken).status)
	require.Equal(t, 204, r.do("PATCH", "/api/segments/order", `{"step":7}`, bearer).status)
	live := withCallers()
	live.AdminToken = nil
	r.SetLive(live)
	require.Equal(t, 204, r.do("PATCH", "/api/segments/order", `{"step":8}`, "Authorization: Bearer "+opsToken).status)
	r.do("PATCH", "/api/segments/order", `{"step":9}`, bearer).requireError(t, 401, "unauthorized")
	var names []any
	for _, line := range r.audited() {
		if line["audit"] == "update" {
			names = append(names, line["who"])
		}
	}
	require.Equal(t, []any{"ops", "admin token", "ops"}, names)
}

// Each caller has rates of its own, on each of its connections.
func TestRatesAreEachCallersOwn(t *testing.T) {
	live := withCallers()
	live.RateLimit = 1
	r := start(t, func(c *Config) { c.Live = live })
	ask := func(header string) (refused bool) {
		for range 100 {
			if r.get(snowflakePrefix+"order", header).status == 429 {
				return true
			}
		}
		return false
	}
	require.True(t, ask("Authorization: Bearer "+shopToken))
	require.Equal(t, 200, r.get(snowflakePrefix+"order", "Authorization: Bearer "+opsToken).status)
}

// The same in the Redis protocol: AUTH, HELLO, RESET, and a reload under an open connection.
func TestRedisCallers(t *testing.T) {
	r, ln := startRedis(t, func(c *Config) { c.Live = withCallers() })
	c := dialRedis(t, ln)
	const noAuth = "-NOAUTH Authentication required."
	require.Equal(t, noAuth, c.ask("INCR order"))
	require.Equal(t, noAuth, c.ask("LEAF.SNOWFLAKE order 5"))
	require.Equal(t, "+PONG", c.ask("PING"))
	for _, wrong := range []string{"AUTH shop " + shopToken + "x", "AUTH ops " + shopToken, "AUTH none " + shopToken, "AUTH " + shopToken + "x"} {
		require.Regexp(t, `^-WRONGPASS `, c.ask(wrong))
		require.Equal(t, noAuth, c.ask("INCR order"))
	}
	require.Equal(t, "+OK", c.ask("AUTH shop "+shopToken))
	require.Equal(t, ":1", c.ask("INCR order"))
	require.Regexp(t, `^-WRONGPASS `, c.ask("AUTH ops wrong"))
	require.Equal(t, ":2", c.ask("INCR order"), "a wrong one takes nothing away")
	require.Regexp(t, `^-NOPERM `, c.ask("INCR a/b"))
	require.Equal(t, "+RESET", c.ask("RESET"))
	require.Equal(t, noAuth, c.ask("INCR order"))
	require.Equal(t, "+OK", c.ask("AUTH "+shopToken))
	require.Equal(t, ":3", c.ask("INCR order"))
	require.Equal(t, "3", r.gauge(`leafd_caller_requests_total{caller="shop"}`))

	other := dialRedis(t, ln)
	send(t, other, commands("HELLO 3 AUTH shop "+shopToken+"\r\nINCR order\r\n"))
	require.Equal(t, "%7", other.line())
	for line := other.line(); line != ":4"; line = other.line() {
		require.NotEqual(t, byte('-'), line[0], line)
	}
	require.Regexp(t, `^-WRONGPASS `, dialRedis(t, ln).ask("HELLO 3 AUTH shop x"))

	live := withCallers()
	live.Callers = live.Callers[1:]
	r.SetLive(live)
	require.Equal(t, noAuth, c.ask("INCR order"))
	r.SetLive(withCallers())
	require.Equal(t, ":5", c.ask("INCR order"))
	r.SetLive(ids.Live{})
	require.Equal(t, ":6", c.ask("INCR order"))
	require.NotContains(t, r.log.String(), "the-token")
}
