package server

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
)

func TestHotPathAllocatesNothing(t *testing.T) {
	s := newServer(t)
	for _, test := range []struct {
		name, target, accept string
		pooled               bool
	}{
		{"snowflake", snowflakePrefix + "order", "", false},
		{"snowflake from curl", snowflakePrefix + "order", "*/*", false},
		{"snowflake from a browser", snowflakePrefix + "order", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", false},
		{"segment", segmentPrefix + "order", "", false},
		{"batch", snowflakePrefix + "order?n=100", "", true},
		{"segment batch", segmentPrefix + "order?n=10", "", true},
		{"JSON", snowflakePrefix + "order", "application/json", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.pooled && raceEnabled {
				return // the pool forgets on purpose there
			}
			ctx := newRequest(test.target, test.accept)
			allocs := testing.AllocsPerRun(500, func() {
				ctx.Response.Reset()
				s.handle(ctx)
			})
			require.Equal(t, 200, ctx.Response.StatusCode())
			require.NotEmpty(t, ctx.Response.Body())
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
	s.SetBackend(&Backend{Snowflake: flake, Segments: tab, Admin: tab})
	return s
}

func newRequest(target, accept string) *fasthttp.RequestCtx {
	ctx := &fasthttp.RequestCtx{}
	ctx.Init2(nil, nil, false)
	ctx.Request.Header.SetRequestURI(target)
	ctx.Request.Header.SetHost("x")
	if accept != "" {
		ctx.Request.Header.Set("Accept", accept)
	}
	return ctx
}

func BenchmarkHandle(b *testing.B) {
	s := newServer(b)
	for _, test := range []struct{ name, target string }{
		{"snowflake", snowflakePrefix + "order"},
		{"segment", segmentPrefix + "order"},
		{"batch of 1000", snowflakePrefix + "order?n=1000"},
	} {
		b.Run(test.name, func(b *testing.B) {
			ctx := newRequest(test.target, "")
			b.ReportAllocs()
			for b.Loop() {
				ctx.Response.Reset()
				s.handle(ctx)
			}
		})
	}
}
