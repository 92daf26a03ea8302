package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/test/certtest"
)

// exhaust asks until the rate has no more to give, and returns the last answer. On a busy machine a
// second may go by between two requests.
func (r *running) exhaust(path string) answer {
	r.t.Helper()
	for range 100 {
		if a := r.get(path); a.status != 200 {
			a.requireError(r.t, 429, "rate_limited")
			return a
		}
	}
	require.FailNow(r.t, "no limit", path)
	return answer{}
}

// What a rate never gives is a bad count, and takes nothing.
func TestRateLimit(t *testing.T) {
	r := start(t, limited(ids.Live{RateLimit: 1000, RateLimits: map[string]int{"slow": 1, "free": 0}}))
	const slow = snowflakePrefix + "slow"
	for _, path := range []string{snowflakePrefix + "order?n=1001", segmentPrefix + "order?n=10000", slow + "?n=2"} {
		a := r.get(path)
		a.requireError(t, 400, "bad_count")
		require.Regexp(t, "n is at most (1000|1):", a.body)
	}
	require.Zero(t, r.used())
	require.Equal(t, 200, r.get(snowflakePrefix+"order?n=1000").status, "the batches before left no debt")
	require.Equal(t, "1", r.exhaust(snowflakePrefix+"order?n=1000").header.Get("Retry-After"))
	require.Zero(t, r.used()%1000, "what was refused took nothing")
	require.Equal(t, "1", r.gauge(`leafd_rate_limited_total{mode="snowflake"}`))
	require.Equal(t, "0", r.gauge(`leafd_rate_limited_total{mode="segment"}`))

	key := 0
	require.Eventually(t, func() bool { // keys are free text
		key++
		return r.get(fmt.Sprintf("%sinvented-%d?n=1000", snowflakePrefix, key)).status == 429
	}, time.Minute, time.Microsecond)
	require.Equal(t, 200, r.get(segmentPrefix+"order?n=1000").status, "another mode")
	require.Equal(t, 200, r.get(slow).status)
	r.exhaust(slow)
	for range 3 {
		require.Equal(t, 200, r.get(snowflakePrefix+"free?n=10000").status)
	}
	require.Equal(t, 200, r.do("HEAD", slow, "").status, "HEAD uses no ID")
	require.Equal(t, 200, r.get("/api/segments").status)

	r.SetLive(ids.Live{})
	require.Equal(t, 200, r.get(slow+"?n=1000").status, "the limit is off")
	r.SetLive(ids.Live{RateLimit: 1})
	r.exhaust(slow)
}

// A client that takes all that a key has leaves other clients theirs.
func TestRatesAreEachClientsOwn(t *testing.T) {
	ca := certtest.New(t, "ca")
	dir := t.TempDir()
	files := writePair(t, dir, ca.Issue(t, "leafd"))
	files.ClientCA = certtest.Write(t, dir, "ca.crt", ca.PEM)
	certificates, err := conn.OpenCertificates(files, 0, nil)
	require.NoError(t, err)
	r := start(t, limited(ids.Live{RateLimit: 1}))
	unix, secure := listenUnix(t), conn.Secured(listenTCP(t), certificates.Server(true))
	r.also(unix, conn.Public)
	r.also(secure, conn.Public)
	from := func(address string) *running {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		other := *r
		other.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", r.addr)
		}}}
		t.Cleanup(other.client.CloseIdleConnections)
		return &other
	}
	for name, client := range map[string]*running{
		"an address":    from("127.0.0.2"),
		"another":       from("127.0.0.3"),
		"a certificate": r.overTLS(secure, ca.Client(t, ca.Issue(t, "alice"))),
		"a second":      r.overTLS(secure, ca.Client(t, ca.Issue(t, "bob"))),
		"a unix socket": r.at(unix),
	} {
		require.Equal(t, 200, client.get(snowflakePrefix+"x").status, name)
		client.exhaust(snowflakePrefix + "x")
		client.client.CloseIdleConnections()
		client.exhaust(snowflakePrefix + "x") // on another connection
	}
}
