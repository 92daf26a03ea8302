package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// redisConn is a client of the Redis protocol that is written by hand.
type redisConn struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

// startRedis is start with a listener of the Redis protocol.
func startRedis(t testing.TB, change func(*Config)) (*running, net.Listener) {
	r := start(t, change)
	ln := listenTCP(t)
	r.also(ln, conn.Redis)
	return r, ln
}

func dialRedis(t testing.TB, ln net.Listener) *redisConn {
	t.Helper()
	nc, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
	require.NoError(t, err)
	return newRedisConn(t, nc)
}

func newRedisConn(t testing.TB, nc net.Conn) *redisConn {
	t.Helper()
	require.NoError(t, nc.SetDeadline(time.Now().Add(time.Minute)))
	t.Cleanup(func() { _ = nc.Close() })
	return &redisConn{nc, t, bufio.NewReader(nc)}
}

// line returns the next line of the answer.
func (c *redisConn) line() string {
	c.t.Helper()
	line, err := c.r.ReadString('\n')
	require.NoError(c.t, err)
	return strings.TrimSuffix(line, "\r\n")
}

// ask sends a line, and returns the first of the answer.
func (c *redisConn) ask(line string) string {
	c.t.Helper()
	send(c.t, c, commands(line+"\r\n"))
	return c.line()
}

// commands returns text with its lines of words, up to the first that is no such line, as clients
// send commands.
func commands(text string) (arrays string) {
	for text != "" && text[0] >= 'A' {
		line, rest, _ := strings.Cut(text, "\r\n")
		words := strings.Fields(line)
		arrays += fmt.Sprintf("*%d\r\n", len(words))
		for _, word := range words {
			arrays += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
		}
		text = rest
	}
	return arrays + text
}

// requireEnd fails unless the server closes the connection without another answer.
func (c *redisConn) requireEnd() {
	c.t.Helper()
	rest, err := io.ReadAll(c.r)
	require.NoError(c.t, err)
	require.Empty(c.t, string(rest))
}

// Everything that HTTP refuses is refused here with the same code, and uses no ID.
func TestRedisRefusesAsHTTPDoes(t *testing.T) {
	r := startEmpty(t, func(c *Config) { c.Live.MaxBatch, c.Live.MaxRange = 100, 200 })
	ln := listenTCP(t)
	r.also(ln, conn.Redis)
	c := dialRedis(t, ln)
	require.Equal(t, "-LOADING leafd is starting (try again in 1 s)", c.ask("INCR order"))
	send(t, c, commands("INFO\r\n"))
	require.Contains(t, c.page(), "loading:1\r\n", "clients wait then")
	starting := &fakeSnowflake{}
	starting.fail(reply.ErrStarting)
	r.SetBackend(&views.Backend{Backend: ids.Backend{Snowflake: starting}})
	require.Equal(t, "-LOADING leafd is starting (try again in 1 s)", c.ask("LEAF.SNOWFLAKE x"))
	require.Regexp(t, "^-LOADING ", c.ask("LEAF.RANGE snowflake x 5"))
	r.SetBackend(r.newBackend())
	long := strings.Repeat("x", segment.MaxTagBytes+1)
	for command, answer := range map[string]string{
		"INCR none":                    "-UNKNOWN_KEY no tag has this name",
		"LEAF.SEGMENT order 101":       "-BAD_COUNT count is a number from 1 to 100",
		"LEAF.SNOWFLAKE order -1":      "-BAD_COUNT count is a number from 1 to 100",
		"INCR " + long:                 "-BAD_KEY a key is 1 to 128 characters (a snowflake key: bytes) of UTF-8 without control characters",
		"LEAF.SNOWFLAKE a\x01":         "-BAD_KEY a key is 1 to 128 characters (a snowflake key: bytes) of UTF-8 without control characters",
		"LEAF.DECODE x":                "-BAD_ID a snowflake ID is a decimal number from 0 to 9223372036854775807",
		"LEAF.RANGE segment order 201": "-BAD_COUNT count is a number from 1 to 200",
		"LEAF.RANGE snowflake x 101":   "-BAD_COUNT count is a number from 1 to 100",
		"LEAF.RANGE segment none 5":    "-UNKNOWN_KEY no tag has this name",
		"LEAF.RANGE segments order 5":  "-BAD_QUERY LEAF.RANGE kind key count: kind is snowflake or segment",
		"LEAF.STRINGS yes":             "-BAD_QUERY LEAF.STRINGS takes on or off",
		"GET order":                    "-ERR unknown command 'GET', with args beginning with: 'order' ",
		"MULTI":                        "-ERR leafd has no transactions: send a pipeline without MULTI, in redis-py pipeline(transaction=False)",
		"CLUSTER NODES":                "-ERR This instance has cluster support disabled",
		"*2\r\n$4\r\nINCR\r\n$0\r\n":   "-BAD_KEY a key is 1 to 128 characters (a snowflake key: bytes) of UTF-8 without control characters",
	} {
		require.Equal(t, answer, c.ask(command), command)
	}
	require.Zero(t, r.used())
	for err, code := range map[error]string{
		snowflake.ErrClockBackwards: "CLOCK_BACKWARDS", snowflake.ErrCeilingReached: "CEILING_REACHED", worker.ErrFenced: "WORKER_FENCED",
		snowflake.ErrStopped: "DRAINING", errors.New("a file's"): "INTERNAL",
	} {
		r.flake.fail(err)
		require.True(t, strings.HasPrefix(c.ask("LEAF.SNOWFLAKE x"), "-"+code+" "), code)
		require.True(t, strings.HasPrefix(c.ask("LEAF.SNOWFLAKE x 2"), "-"+code+" "), code)
	}
	r.table.fail(segment.ErrUnavailable)
	require.Equal(t, "-SEGMENT_UNAVAILABLE no range of this tag is in memory and none could be fetched (try again in 1 s)", c.ask("INCR order"))
	r.SetBackend(&views.Backend{})
	require.Equal(t, "-MODE_DISABLED this kind of ID is switched off here", c.ask("INCR order"))
	require.NotContains(t, r.get("/metrics").body, "a file's")
	require.Equal(t, "4", r.gauge(`leafd_redis_errors_total{code="bad_count"}`))
}

// page reads a bulk string.
func (c *redisConn) page() string {
	c.t.Helper()
	var n int
	_, err := fmt.Sscanf(c.line(), "$%d", &n)
	require.NoError(c.t, err)
	text := make([]byte, n+2)
	_, err = io.ReadFull(c.r, text)
	require.NoError(c.t, err)
	return string(text[:n])
}

// Both protocols take from one sequence, and count together: in metrics, on the dashboard and
// in INFO, where what operators alone may see needs their token.
func TestRedisCountsWithHTTP(t *testing.T) {
	r := start(t, func(c *Config) { c.AdminApart = true })
	admin, ln := listenTCP(t), listenTCP(t)
	r.also(admin, conn.Admin)
	r.also(ln, conn.Redis)
	c := dialRedis(t, ln)
	require.Equal(t, ":1", c.ask("INCR order"))
	require.Equal(t, "2", r.get(segmentPrefix+"order").body)
	require.Equal(t, "*3", c.ask("LEAF.SEGMENT order 3"))
	for _, id := range []string{":3", ":4", ":5"} {
		require.Equal(t, id, c.line())
	}
	require.Equal(t, "*2", c.ask("leaf.range Segment order 5"))
	for _, line := range []string{"*2", "$1", "6", "$1", "7", "*2", "$1", "8", "$2", "10"} {
		require.Equal(t, line, c.line())
	}
	require.Equal(t, "*200", c.ask("LEAF.SNOWFLAKE x 200")) // beyond inlineBytes
	for range 200 {
		require.Len(t, c.line(), 20)
	}
	send(t, c, commands("LEAF.SNOWFLAKE x\r\nLEAF.SNOWFLAKE x 1\r\nINCR none\r\nPING\r\n"))
	for _, begin := range []string{":1", "*1", ":1", "-UNKNOWN_KEY", "+PONG"} {
		require.True(t, strings.HasPrefix(c.line(), begin), begin)
	}
	page := r.at(admin).get("/metrics").body
	for _, line := range []string{
		`leafd_ids_issued_total{mode="segment"} 10`, `leafd_ids_issued_total{mode="snowflake"} 202`,
		`leafd_redis_request_duration_seconds_count{batch="no",mode="segment"} 2`, `leafd_redis_request_duration_seconds_count{batch="no",mode="snowflake"} 2`,
		`leafd_redis_request_duration_seconds_count{batch="yes",mode="segment"} 2`, `leafd_redis_request_duration_seconds_count{batch="yes",mode="snowflake"} 1`,
		`leafd_http_request_duration_seconds_count{batch="no",mode="segment"} 1`,
		`leafd_redis_errors_total{code="unknown_key"} 1`, `leafd_redis_connections 1`,
	} {
		require.Contains(t, page, line+"\n")
	}
	require.Contains(t, r.at(admin).get("/api/overview").body, `"issued":{"segment":"10","snowflake":"202"},"errors":{"unknown_key":1}`)

	send(t, c, commands("INFO\r\n"))
	public := c.page()
	require.Contains(t, public, "redis_version:7.0.0\r\nserver_name:leafd\r\nleafd_version:1.2.3\r\n")
	require.Contains(t, public, "ready:1\r\n\r\n# Clients\r\nconnected_clients:1\r\n")
	require.NotContains(t, public, "Errorstats")
	require.Equal(t, "-WRONGPASS invalid username-password pair or user is disabled.", c.ask("AUTH guess"))
	require.Contains(t, r.log.String(), `"audit":"refused"`)
	require.NotContains(t, r.log.String(), "guess")
	require.Equal(t, "+OK", c.ask("AUTH "+token))
	send(t, c, commands("INFO\r\n"))
	require.Contains(t, c.page(), "# Stats\r\nsnowflake_ids_issued:202\r\nsegment_ids_issued:10\r\n\r\n# Errorstats\r\nerrorstat_UNKNOWN_KEY:count=1\r\nerrorstat_WRONGPASS:count=1\r\n")
	require.Equal(t, ":11", c.ask("INCR order"))
	require.Eventually(t, func() bool { // infoShare
		send(t, c, commands("INFO\r\n"))
		return strings.Contains(c.page(), "segment_ids_issued:11")
	}, time.Minute, 10*time.Millisecond)
	r.SetLive(ids.Live{})
	require.True(t, strings.HasPrefix(c.ask("AUTH "+token), "-ERR AUTH <password> called without any password"))
}

// With LEAF.STRINGS on, drivers with integers that end at 2^53 get the digits.
func TestRedisStrings(t *testing.T) {
	_, ln := startRedis(t, nil)
	c, other := dialRedis(t, ln), dialRedis(t, ln)
	require.Equal(t, "+OK", c.ask("LEAF.STRINGS on"))
	send(t, c, commands(strings.Repeat("LEAF.SNOWFLAKE x\r\n", 3)+"LEAF.SNOWFLAKE x 2\r\nLEAF.SNOWFLAKE x 500\r\nINCR order\r\nCLIENT ID\r\n"))
	id := int64(1<<60 + 1)
	next := func() {
		require.Equal(t, strconv.FormatInt(id, 10), c.page())
		id++
	}
	for range 3 {
		next()
	}
	for _, n := range []int{2, 500} {
		require.Equal(t, "*"+strconv.Itoa(n), c.line())
		for range n {
			next()
		}
	}
	require.Equal(t, "1", c.page())
	require.Regexp(t, `^:\d+$`, c.line(), "no ID")
	require.Equal(t, "*12", c.ask("LEAF.DECODE 1152921504606846977"))
	require.Equal(t, []string{"id", "1152921504606846977", "timestamp"}, []string{c.page(), c.page(), c.page()})
	for range 9 {
		c.page()
	}
	require.Equal(t, "+OK", c.ask("leaf.strings OFF"))
	require.Equal(t, ":"+strconv.FormatInt(id, 10), c.ask("LEAF.SNOWFLAKE x"))
	require.Equal(t, ":2", other.ask("INCR order"), "of this connection alone")
}

// The rates of HTTP, by key.
func TestRedisLimits(t *testing.T) {
	r, ln := startRedis(t, func(c *Config) {
		limited(ids.Live{RateLimit: 5})(c)
	})
	c := dialRedis(t, ln)
	require.Regexp(t, `^-BAD_COUNT n is at most 5`, c.ask("LEAF.SNOWFLAKE order 6"))
	r.exhaust(snowflakePrefix + "order?n=5") // a client has its rate in both protocols together
	send(t, c, commands(strings.Repeat("LEAF.SNOWFLAKE order\r\n", 20)))
	for range 19 {
		c.line()
	}
	require.Regexp(t, `^-RATE_LIMITED .* \(try again in 1 s\)$`, c.line())
	require.Equal(t, ":1", c.ask("INCR order"), "another mode")
}

// Idle and half-sent commands.
func TestRedisTimeouts(t *testing.T) {
	t.Parallel()
	r, ln := startRedis(t, func(c *Config) { c.IdleTimeout, c.ReadTimeout = 300*time.Millisecond, arrival })
	var conns []*redisConn
	for _, begin := range []string{"", "INCR order\r\n", "*2\r\n$4\r\nIN", "INCR order\r\n*2\r\n$4\r\nINCR\r\n$5\r\norde", "*0\r\n*0\r\n"} {
		c := dialRedis(t, ln)
		send(t, c, commands(begin))
		if strings.HasPrefix(begin, "INCR") {
			require.Regexp(t, `^:\d+$`, c.line())
		}
		conns = append(conns, c)
	}
	for _, c := range conns { // in their time, and not one after the other
		c.requireEnd()
	}
	require.Equal(t, 2, r.used())
}

// Once the daemon drains each connection ends after its answer; at the end those
// that wait are closed, what is in flight is answered, and no client loses an answer.
func TestRedisDrains(t *testing.T) {
	r, ln := startRedis(t, nil)
	idle, asking, fresh := dialRedis(t, ln), dialRedis(t, ln), dialRedis(t, ln)
	require.Equal(t, "+PONG", idle.ask("PING"))
	require.Equal(t, "+PONG", asking.ask("PING"))
	r.Drain()
	send(t, asking, commands("INCR order\r\nINCR order\r\n*2\r\n$4\r\nINC"))
	require.Equal(t, ":1", asking.line())
	require.Equal(t, ":2", asking.line())
	asking.requireEnd()
	require.Equal(t, ":3", dialRedis(t, ln).ask("INCR order"), "the listener is open yet")

	b := r.newBackend()
	r.flake.block, r.flake.begun = make(chan struct{}), make(chan struct{})
	r.SetBackend(b)
	send(t, fresh, commands("LEAF.SNOWFLAKE x 2\r\n"))
	<-r.flake.begun
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		ended <- r.Shutdown(ctx)
	}()
	idle.requireEnd()
	close(r.flake.block)
	require.Equal(t, "*2", fresh.line())
	require.Equal(t, fmt.Sprintf(":%d", 1<<60+1), fresh.line())
	require.Equal(t, fmt.Sprintf(":%d", 1<<60+2), fresh.line())
	fresh.requireEnd()
	require.NoError(t, <-ended)
}

// TLS with certificates of clients, as on HTTP; a client that speaks plain RESP is told.
func TestRedisOverTLS(t *testing.T) {
	s := startSecure(t, true, nil)
	clean := listenTCP(t)
	s.also(conn.Secured(clean, s.certificates.Server(true)), conn.Redis)
	secure := func(conf *tls.Config) *redisConn {
		nc, err := tls.Dial("tcp", clean.Addr().String(), conf)
		require.NoError(t, err)
		return newRedisConn(t, nc)
	}
	require.Equal(t, ":1", secure(s.ca.Client(t, s.ca.Issue(t, "alice"))).ask("INCR order"))
	stranger := secure(s.ca.Client(t))
	_, _ = io.WriteString(stranger, commands("INCR order\r\n"))
	_, err := stranger.r.ReadByte()
	require.ErrorContains(t, err, "certificate required")
	plain := dialRedis(t, clean)
	require.Equal(t, "-TLS_REQUIRED this port speaks TLS", plain.ask("*1\r\n$4\r\nPING"))
	plain.requireEnd()
	require.Equal(t, 1, s.used())
}

// A handler that panics ends its connection alone, and is counted.
func TestRedisPanic(t *testing.T) {
	r, ln := startRedis(t, nil)
	b := r.newBackend()
	b.Snowflake = panicking{}
	r.SetBackend(b)
	c := dialRedis(t, ln)
	require.Equal(t, "-INTERNAL leafd failed; its log says how", c.ask("LEAF.SNOWFLAKE x"))
	c.requireEnd()
	require.Equal(t, ":1", dialRedis(t, ln).ask("INCR order"))
	require.Equal(t, "1", r.gauge("leafd_http_panics_total"))
	require.Contains(t, r.log.String(), "please report it")
}
