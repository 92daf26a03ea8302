package server

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/views"
)

func TestHotPathAllocatesNothing(t *testing.T) {
	s, callers := newServer(t), withCallers()
	callers.RateLimit = 10_000_000
	for _, test := range []struct {
		name, target, accept string
		pooled               bool
		live                 ids.Live
	}{
		{"snowflake", snowflakePrefix + "order", "", false, ids.Live{}},
		{"snowflake from curl", snowflakePrefix + "order", "*/*", false, ids.Live{}},
		{"snowflake from a browser", snowflakePrefix + "order", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", false, ids.Live{}},
		{"segment", segmentPrefix + "order", "", false, ids.Live{}},
		{"batch", snowflakePrefix + "order?n=100", "", true, ids.Live{}},
		{"segment batch", segmentPrefix + "order?n=10", "", true, ids.Live{}},
		{"ranges", snowflakePrefix + "order?n=10&as=ranges", "", true, ids.Live{}},
		{"segment ranges", segmentPrefix + "order?n=10&as=ranges", "", true, ids.Live{}},
		{"ranges as JSON", segmentPrefix + "order?n=10&as=ranges", "application/json", true, ids.Live{}},
		{"JSON", snowflakePrefix + "order", "application/json", true, ids.Live{}},
		{"with rates", snowflakePrefix + "order", "", false, ids.Live{RateLimit: 10_000_000, RateLimits: map[string]int{"another": 5}}},
		{"a segment with rates", segmentPrefix + "order", "", false, ids.Live{RateLimit: 10_000_000}},
		{"of a caller", snowflakePrefix + "order", "", false, callers},
		{"of a caller's pattern", snowflakePrefix + "payment", "", false, callers},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.pooled && raceEnabled {
				return // the pool forgets on purpose there
			}
			c := newConn(t)
			s.SetLive(test.live)
			ctx := newRequest(c, test.target, test.accept)
			ctx.Request.Header.Set("Authorization", "Bearer "+shopToken)
			allocs := testing.AllocsPerRun(500, func() {
				ctx.Response.Reset()
				s.ids.Handle(ctx)
			})
			require.Equal(t, 200, ctx.Response.StatusCode())
			require.NotEmpty(t, ctx.Response.Body())
			require.Zero(t, allocs)
		})
	}
}

// The whole way of a request, through listener, connection and fasthttp, with a
// client that allocates nothing itself.
func TestConnectionAllocatesNothing(t *testing.T) {
	if raceEnabled {
		return // fasthttp's pools forget on purpose there
	}
	r := start(t, nil)
	for _, target := range []string{snowflakePrefix + "order", segmentPrefix + "order"} {
		t.Run(target, func(t *testing.T) {
			c := r.dial()
			request := []byte("GET " + target + " HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n")
			answer := make([]byte, 4096)
			n := 0
			allocs := testing.AllocsPerRun(2000, func() {
				if _, err := c.Write(request); err != nil {
					t.Error(err)
				}
				var err error
				if n, err = c.Read(answer); err != nil {
					t.Error(err)
				}
			})
			require.Contains(t, string(answer[:n]), "HTTP/1.1 200 OK")
			require.Zero(t, allocs)
		})
	}
}

// newServer returns a Server that doesn't listen.
func newServer(t testing.TB) *Server {
	t.Helper()
	s, err := New(testConfig(t.Output()))
	require.NoError(t, err)
	tab := newTable(segment.Row{Tag: "order", MaxID: 1, Step: 100})
	flake := &fakeSnowflake{}
	flake.last.Store(1 << 60)
	s.SetBackend(&views.Backend{Backend: ids.Backend{Snowflake: flake, Segments: tab}, Admin: &segment.Table{Admin: tableAdmin{tab}}})
	return s
}

func newRequest(c net.Conn, target, accept string) *fasthttp.RequestCtx {
	ctx := &fasthttp.RequestCtx{}
	ctx.Init2(c, nil, false)
	ctx.Request.Header.SetRequestURI(target)
	ctx.Request.Header.SetHost("x")
	if accept != "" {
		ctx.Request.Header.Set("Accept", accept)
	}
	return ctx
}
