package server

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A batch of 1000 at one a second leaves a debt that no slow test can pay.
func TestRateLimit(t *testing.T) {
	r := start(t, limited(Live{RateLimit: 1}))
	require.Equal(t, 200, r.get(snowflakePrefix+"order?n=1000").status)
	used := r.used()
	for _, path := range []string{snowflakePrefix + "order", snowflakePrefix + "order?n=1", snowflakePrefix + "order?n=500"} {
		a := r.get(path)
		a.requireError(t, 429, "rate_limited")
		wait, err := strconv.Atoi(a.header.Get("Retry-After"))
		require.NoError(t, err)
		require.Greater(t, wait, 900)
		require.LessOrEqual(t, wait, 1000)
	}
	require.Equal(t, used, r.used())
	require.Equal(t, "3", r.gauge(`leafd_rate_limited_total{mode="snowflake"}`))
	require.Equal(t, "0", r.gauge(`leafd_rate_limited_total{mode="segment"}`))

	require.Equal(t, 200, r.get(snowflakePrefix+"other").status, "another key")
	require.Equal(t, 200, r.get(segmentPrefix+"order").status, "another mode")
	require.Equal(t, 200, r.do("HEAD", snowflakePrefix+"order", "").status, "HEAD uses no ID")
	require.Equal(t, 200, r.get("/api/segments").status)

	r.SetLive(Live{})
	require.Equal(t, 200, r.get(snowflakePrefix+"order?n=1000").status, "the limit is off")
	r.SetLive(Live{RateLimit: 1})
	r.get(snowflakePrefix+"order").requireError(t, 429, "rate_limited")
}

// What is bad is answered as such and charged nothing.
func TestBadRequestsAreNotCharged(t *testing.T) {
	r := start(t, limited(Live{RateLimit: 1}))
	for range 3 {
		r.get(segmentPrefix+"order?n=10001").requireError(t, 400, "bad_count")
		require.Equal(t, 405, r.do("PUT", segmentPrefix+"order?n=1000", "").status)
	}
	require.Equal(t, 200, r.get(segmentPrefix+"order?n=1000").status)
	r.get(segmentPrefix+"order?n=1000").requireError(t, 429, "rate_limited")
	r.get(segmentPrefix+"order?n=10001").requireError(t, 400, "bad_count")
	require.Equal(t, 1000, r.used())
}

func TestRetryAfterIsBounded(t *testing.T) {
	r := start(t, limited(Live{RateLimit: 1}))
	require.Equal(t, 200, r.get(snowflakePrefix+"order?n=10000").status)
	require.Equal(t, "3600", r.get(snowflakePrefix+"order").header.Get("Retry-After"))
}

// With every limit on, a request allocates nothing.
func TestLimitsAllocateNothing(t *testing.T) {
	s := newServer(t)
	s.SetLive(Live{RateLimit: 10_000_000})
	for _, target := range []string{snowflakePrefix + "order", segmentPrefix + "order", snowflakePrefix + "order?n=5"} {
		if raceEnabled && strings.Contains(target, "?") {
			continue // the pool forgets on purpose there
		}
		ctx := newRequest(&conn{}, target, "")
		allocs := testing.AllocsPerRun(500, func() {
			ctx.Response.Reset()
			s.handle(ctx)
		})
		require.Equal(t, 200, ctx.Response.StatusCode(), string(ctx.Response.Body()))
		require.Zero(t, allocs, target)
	}
}

func BenchmarkHandleLimited(b *testing.B) {
	s := newServer(b)
	ctx := newRequest(&conn{}, snowflakePrefix+"order", "")
	for name, l := range map[string]Live{"no rate": {}, "rate": {RateLimit: 10_000_000}} {
		s.SetLive(l)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ctx.Response.Reset()
				s.handle(ctx)
			}
		})
	}
}
